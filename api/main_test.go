package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, nil)
	os.Exit(engines.Run(m))
}

// service is the API over a real store, on a database of its own. Every answer
// is checked against the OpenAPI document.
type service struct {
	t        testing.TB
	url      string
	http     *http.Client
	registry *prometheus.Registry
	log      *logBuffer
	stopping chan struct{}
	server   *httptest.Server
}

func newService(t testing.TB, change ...func(*Config)) *service {
	t.Helper()
	s := &service{t: t, registry: prometheus.NewRegistry(), log: &logBuffer{}, stopping: make(chan struct{})}
	cfg := postgres.DefaultConfig()
	cfg.URL = engines.Postgres(t)
	st, err := postgres.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- st.Run(ctx) }()
	routes := Config{
		Ledger: &ledger{}, Handoffs: st, Rooms: st, Tasks: &standings{}, Ceilings: st, Fleet: emptyMetrics, Registry: s.registry, Stopping: s.stopping,
		Receiver: receive.New(receive.DefaultConfig(), discard{}, nil, slog.New(slog.DiscardHandler), s.registry),
		Log:      slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&routes)
	}
	s.server = httptest.NewServer(Routes(routes))
	s.url = s.server.URL
	s.http = &http.Client{Transport: openAPIDocument(t).Transport(t, s.server.Client().Transport)}
	t.Cleanup(func() {
		s.server.Close()
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		st.Close()
	})
	return s
}

// reply is an answer, read.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// do sends a request; body may be nil, text, or what is to be JSON.
func (s *service) do(method, path string, body any, header ...string) *reply {
	s.t.Helper()
	r, err := s.try(s.t.Context(), method, path, body, header...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (s *service) try(ctx context.Context, method, path string, body any, header ...string) (*reply, error) {
	s.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, in)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Content-Type" {
			req.Header.Del(header[i])
		}
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return &reply{s.t, resp.StatusCode, resp.Header, raw}, err
}

// want demands a status.
func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// fails demands an error about a field.
func (r *reply) fails(status int, field string) envelope.Error {
	r.t.Helper()
	var e envelope.Error
	if err := json.Unmarshal(r.body, &e); err != nil || r.status != status || e.Field != field {
		r.t.Errorf("%d %q, want %d %q: %s", r.status, e.Field, status, field, r.body)
	}
	checkText(r.t, status, e)
	return e
}

// checkText demands an error whose text names the field at fault, and that a
// refusal says the remedy.
func checkText(t testing.TB, status int, e envelope.Error) {
	t.Helper()
	if e.Field != "" && !strings.HasPrefix(e.Message, e.Field+": ") || status < http.StatusInternalServerError && e.Hint == "" {
		t.Errorf("%d does not name the field or no remedy: %+v", status, e)
	}
}

// into decodes the answer.
func into[T any](r *reply) (v T) {
	r.t.Helper()
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatalf("%v: %s", err, r.body)
	}
	return v
}

// counts demands the values of metrics, in text format.
func (s *service) counts(name, want string) {
	s.t.Helper()
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want), name); err != nil {
		s.t.Error(err)
	}
}

type logBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
