package postgres

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a store and Postgres and fails in chosen ways. It reads
// Postgres's messages, so that it knows where an answer ends.
type proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	cutReply int           // the answers until one is lost, with its connection; 0: none is
	cutQuery int           // the same of requests
	lost     chan struct{} // closed when one was lost
	gate     chan struct{} // closed while new connections are let in
	flow     chan struct{} // closed while bytes are let through
	opened   int           // connections
	deaf     int           // what is said on the first so many connections is lost
}

// newProxy returns a proxy of the Postgres at address, and its own address.
func newProxy(t *testing.T, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := make(chan struct{})
	close(open)
	p := &proxy{listener: l, target: u.Host, conns: map[net.Conn]struct{}{}, lost: make(chan struct{}), gate: open, flow: open}
	u.Host = l.Addr().String()
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.openGate()
		p.thaw()
		p.cutAll()
		p.running.Wait()
	})
	return p, u.String()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	<-p.state(&p.gate)
	server, err := new(net.Dialer).Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.opened++
	number := p.opened
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, server)
	}()
	ended := make(chan struct{}, 2)
	p.running.Go(func() { p.queries(server, client, number); ended <- struct{}{} })
	p.running.Go(func() { p.replies(client, server, number); ended <- struct{}{} })
	<-ended
}

func (p *proxy) state(c *chan struct{}) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *c
}

// queries passes on what the client says, a write of its at a time.
func (p *proxy) queries(server io.Writer, client io.Reader, number int) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		<-p.state(&p.flow)
		if p.isDeaf(number) {
			continue
		}
		if isCancel(buffer[:n]) || p.lose(&p.cutQuery) {
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// isCancel recognises the request to cancel what another connection does. It
// never arrives, as when the network fails: Postgres goes on.
func isCancel(message []byte) bool {
	const code = 80877102
	return len(message) >= 8 && binary.BigEndian.Uint32(message[4:]) == code
}

// replies passes on what Postgres says, a whole answer at a time.
func (p *proxy) replies(client io.Writer, server io.Reader, number int) {
	const ready, authentication, failure, copyIn, notification = 'Z', 'R', 'E', 'G', 'A'
	var answer []byte
	for {
		header := make([]byte, 5)
		if _, err := io.ReadFull(server, header); err != nil {
			return
		}
		message := append(header, make([]byte, binary.BigEndian.Uint32(header[1:])-4)...)
		if _, err := io.ReadFull(server, message[5:]); err != nil {
			return
		}
		answer = append(answer, message...)
		switch header[0] {
		case ready, authentication, failure, copyIn, notification:
		default:
			continue
		}
		<-p.state(&p.flow)
		if p.isDeaf(number) {
			continue
		}
		if header[0] == ready && p.lose(&p.cutReply) {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
		answer = answer[:0]
	}
}

// lose counts down, and reports whether this one is lost.
func (p *proxy) lose(n *int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *n == 0 {
		return false
	}
	*n--
	if *n > 0 {
		return false
	}
	close(p.lost)
	return true
}

// loseReply loses the n-th answer of Postgres from now on, and loseQuery the
// n-th request. The connection is cut. The channel closes when it happens.
func (p *proxy) loseReply(n int) <-chan struct{} { return p.arm(n, 0) }
func (p *proxy) loseQuery(n int) <-chan struct{} { return p.arm(0, n) }

func (p *proxy) arm(reply, query int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutReply, p.cutQuery, p.lost = reply, query, make(chan struct{})
	return p.lost
}

// disarm loses nothing more and reports whether something was lost.
func (p *proxy) disarm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	fired := p.cutReply == 0 && p.cutQuery == 0
	p.cutReply, p.cutQuery = 0, 0
	return fired
}

// cutAll cuts every connection.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// deafen loses, unnoticed, whatever is said on the connections that there are,
// as when a machine vanishes.
func (p *proxy) deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = p.opened
}

func (p *proxy) isDeaf(number int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return number <= p.deaf
}

// shutGate makes new connections wait, freeze every byte.
func (p *proxy) shutGate() { p.stop(&p.gate) }
func (p *proxy) openGate() { p.resume(&p.gate) }
func (p *proxy) freeze()   { p.stop(&p.flow) }
func (p *proxy) thaw()     { p.resume(&p.flow) }

func (p *proxy) stop(c *chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*c = make(chan struct{})
}

func (p *proxy) resume(c *chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-*c:
	default:
		close(*c)
	}
}
