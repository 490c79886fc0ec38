package api

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector/receive"
)

func rawServer(t *testing.T) string {
	t.Helper()
	reg := prometheus.NewRegistry()
	srv := httptest.NewServer(Routes(Config{
		Ledger: &ledger{}, Registry: reg, Log: slog.New(slog.DiscardHandler),
		Receiver: receive.New(receive.DefaultConfig(), discard{}, nil, slog.New(slog.DiscardHandler), reg),
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestStillSending: a client that reads no answer before it has sent all of a
// body that is far too large gets the reason rather than a reset connection.
func TestStillSending(t *testing.T) {
	t.Parallel()
	addr := rawServer(t)
	const size = 24 << 20
	for _, path := range []string{"/handoffs", "/api/v1/chat/rooms", "/v1/calls"} {
		for _, chunked := range []bool{false, true} {
			conn := dial(t, addr)
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n", path)
			block := strings.Repeat("x", 64<<10)
			if chunked {
				head += "Transfer-Encoding: chunked\r\n\r\n"
				block = fmt.Sprintf("%x\r\n%s\r\n", len(block), block)
			} else {
				head += fmt.Sprintf("Content-Length: %d\r\n\r\n", size)
			}
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			for range size >> 16 {
				if _, err := io.WriteString(conn, block); err != nil {
					t.Fatalf("%s: cut off while sending: %v", path, err)
				}
				time.Sleep(100 * time.Microsecond)
			}
			if chunked {
				_, _ = io.WriteString(conn, "0\r\n\r\n")
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
	}
}

// TestNothingIsAskedFor: a client that waits for 100 Continue is refused
// without having to send.
func TestNothingIsAskedFor(t *testing.T) {
	t.Parallel()
	conn := dial(t, rawServer(t))
	start := time.Now()
	_, err := io.WriteString(conn, "POST /handoffs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 100000000\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || time.Since(start) > 5*time.Second {
		t.Errorf("%d after %v", resp.StatusCode, time.Since(start))
	}
}

// TestConnectionGoesOn: after a refused body, and after a body that was read.
func TestConnectionGoesOn(t *testing.T) {
	t.Parallel()
	conn := dial(t, rawServer(t))
	in := bufio.NewReader(conn)
	for _, c := range []struct {
		request string
		status  int
	}{
		{"POST /rooms HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n" + strings.Repeat(" ", 500000), 413},
		{"POST /rooms HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 400},
		{"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 200},
	} {
		if _, err := io.WriteString(conn, c.request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%d, want %d", resp.StatusCode, c.status)
		}
	}
}
