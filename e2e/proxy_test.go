package e2e

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy is a TCP proxy in front of an address, which can be made to hang up on
// everybody as if the host behind it were gone.
type proxy struct {
	listener net.Listener
	to       string
	group    sync.WaitGroup
	passed   atomic.Int64 // bytes to the address

	mu    sync.Mutex
	away  bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, conns: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.setAway(true)
		p.group.Wait()
	})
	return p
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// setAway hangs up on everybody, or ends that.
func (p *proxy) setAway(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	if away {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

// keep remembers a connection, unless there are to be none.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.join(c) })
	}
}

func (p *proxy) join(in net.Conn) {
	if !p.keep(in) {
		return
	}
	defer p.drop(in)
	out, err := net.Dial("tcp", p.to)
	if err != nil || !p.keep(out) {
		return
	}
	defer p.drop(out)
	var half sync.WaitGroup
	half.Go(func() {
		_, _ = io.Copy(io.MultiWriter(out, counter{&p.passed}), in)
		_ = out.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(in, out)
	_ = in.Close()
	half.Wait()
}
