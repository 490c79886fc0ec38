package receive

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func forwarding(t *testing.T, url string, queue int) *harness {
	t.Helper()
	h := newHarness(t, func(c *Config) { c.ForwardTo, c.ForwardQueue = url, queue })
	h.forward = NewForwarder(h.cfg, slog.New(slog.DiscardHandler), h.reg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.forward.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return h
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestForward: copies arrive byte for byte, also of pushes that the ledger
// refuses.
func TestForward(t *testing.T) {
	t.Parallel()
	type copied struct{ Method, Query, ContentType, Body string }
	var mu sync.Mutex
	var got []copied
	operator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, copied{r.Method, r.URL.RawQuery, r.Header.Get("Content-Type"), string(b)})
		if strings.Contains(string(b), "broken") {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(operator.Close)
	h := forwarding(t, operator.URL+"/internal/metrics/push", 10)
	const typ = "text/plain; version=0.0.4; charset=utf-8"
	h.send(http.MethodPost, "/push?job=j&pod=p%20q&run_id=r", "up 1\r\n", "Content-Type", typ)
	h.send(http.MethodPost, "/push?run_id=r", "broken\x00", "Content-Type", typ)
	h.send(http.MethodDelete, "/push?run_id=r", "")
	eventually(t, "three copies", func() bool { return h.counter(t, "forwarded_pushes_total", "sent") == 2 })
	mu.Lock()
	defer mu.Unlock()
	want := []copied{{"POST", "job=j&pod=p%20q&run_id=r", typ, "up 1\r\n"}, {"POST", "run_id=r", typ, "broken\x00"}, {"DELETE", "run_id=r", "", ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h.counter(t, "forwarded_pushes_total", "rejected") != 1 {
		t.Error("a refused copy was not counted")
	}
}

// TestForwardToASlowOperator: it costs copies, never a push.
func TestForwardToASlowOperator(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	operator := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(operator.Close)
	t.Cleanup(func() { close(release) })
	h := forwarding(t, operator.URL, 2)
	start := time.Now()
	for range 50 {
		if w := h.send(http.MethodPost, pushURL, "up 1\n"); w.Code != http.StatusNoContent {
			t.Fatal(w.Code)
		}
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("50 pushes took %s", d)
	}
	if n := h.counter(t, "forwarded_pushes_total", "dropped"); n < 47 || n > 48 {
		t.Errorf("%v copies were dropped", n)
	}
}

func TestForwardToADeadOperator(t *testing.T) {
	t.Parallel()
	operator := httptest.NewServer(http.NotFoundHandler())
	url := operator.URL
	operator.Close()
	h := forwarding(t, url, 10)
	if w := h.send(http.MethodPost, pushURL, "up 1\n"); w.Code != http.StatusNoContent || len(h.memory.facts.Samples) != 1 {
		t.Fatal(w.Code)
	}
	eventually(t, "a failure", func() bool { return h.counter(t, "forwarded_pushes_total", "failed") == 1 })
}

func TestForwardTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ to, query, want string }{
		{"http://o/push", "pod=g%20h&run_id=r", "http://o/push?pod=g%20h&run_id=r"},
		{"http://o/push?a=b", "pod=g", "http://o/push?a=b&pod=g"},
		{"http://o/push?a=b", "", "http://o/push?a=b"},
		{"http://o/push?", "pod=g", "http://o/push?pod=g"},
		{"http://o", "pod=g", "http://o?pod=g"},
	} {
		if got, err := (&Forwarder{url: c.to}).target(c.query); err != nil || got != c.want {
			t.Errorf("%s and %s: %s, %v, want %s", c.to, c.query, got, err, c.want)
		}
	}
}

// TestForwardBounds: copies wait up to ForwardBytes, and none is lost
// uncounted when the service stops.
func TestForwardBounds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) { c.ForwardTo, c.ForwardBytes = "http://127.0.0.1:1", 12 })
	f := NewForwarder(h.cfg, slog.New(slog.DiscardHandler), h.reg)
	for range 3 {
		f.Send(http.MethodPost, "", http.Header{}, []byte("up 1\n"))
	}
	dropped := func() float64 { return h.counter(t, "forwarded_pushes_total", "dropped") }
	if n := dropped(); n != 1 {
		t.Errorf("%v of 15 bytes were dropped, want 1 copy", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx); err != nil {
		t.Error(err)
	}
	if n := dropped(); n != 3 {
		t.Errorf("%v copies were dropped at the stop, want 3", n)
	}
	f.Send(http.MethodPost, "", http.Header{}, nil)
	if n := dropped(); n != 4 {
		t.Errorf("a copy after the stop: %v dropped", n)
	}
}
