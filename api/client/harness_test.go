package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/szymonrychu/tatara-ledger/api/client"
)

// service answers as a test says and keeps what it was asked.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

type asked struct {
	method, uri, body string
	header            http.Header
}

func serve(t *testing.T, answer http.HandlerFunc) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.asked = append(s.asked, asked{r.Method, r.RequestURI, string(body), r.Header.Clone()})
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

// of returns a client of the service that gives up at once, unless cfg says
// otherwise.
func (s *service) client(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	cfg.BaseURL = s.URL + cfg.BaseURL
	if cfg.Attempts == 0 {
		cfg.Attempts = 1
	}
	return newClient(t, cfg)
}

func newClient(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// transport plays a service without a network, for tests in fake time.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Header: h, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// say answers with a text. A client that is gone is no matter.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }
