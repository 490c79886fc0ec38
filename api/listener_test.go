package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// TestListener: what net/http refuses by itself has the envelope too, and what
// handlers answer is left alone, whatever it looks like.
func TestListener(t *testing.T) {
	t.Parallel()
	const bare = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, bare) }))
	srv.Listener = Listener(srv.Listener)
	srv.Config.MaxHeaderBytes = 1 << 10
	srv.Start()
	t.Cleanup(srv.Close)
	ask := func(request string) *reply {
		t.Helper()
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return &reply{t, resp.StatusCode, resp.Header, body}
	}
	for request, want := range map[string]struct {
		status int
		says   string
	}{
		"GET /handoffs/%zz HTTP/1.1\r\nHost: x\r\n\r\n":                              {400, "%25"},
		"GET /handoffs/a%2 HTTP/1.1\r\nHost: x\r\n\r\n":                              {400, "%25"},
		"GET /rooms/a\x00b HTTP/1.1\r\nHost: x\r\n\r\n":                              {400, ""},
		"GET rooms HTTP/1.1\r\nHost: x\r\n\r\n":                                      {400, ""},
		"GET / HTTP/1.1\r\n\r\n":                                                     {400, "missing required Host header"},
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                               {400, ""},
		"GET / HTTP/1.1\r\nHost: x\r\nb@d: 1\r\n\r\n":                                {400, "header"},
		"nonsense\r\n\r\n":                                                           {400, ""},
		"GET / HTTP/7.0\r\nHost: x\r\n\r\n":                                          {505, "protocol version"},
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: br\r\n\r\n":                {501, "transfer encoding"},
		"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 8<<10) + "\r\n\r\n": {431, "too large"},
	} {
		r := ask(request)
		e := r.fails(want.status, "request")
		if !strings.Contains(string(r.body), want.says) || e.Hint == "" {
			t.Errorf("%.60q: %s", request, r.body)
		}
		h := r.header
		if e.RequestID == "" || e.RequestID != h.Get(envelope.RequestIDHeader) || h.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%.60q: %v %+v", request, h, e)
		}
	}
	if r := ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").want(200); string(r.body) != bare {
		t.Errorf("%q", r.body)
	}
}
