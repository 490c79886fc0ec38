package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// ledger is a store in a state that a real one cannot be brought into.
type ledger struct {
	rows    []clickhouse.Spend
	sources []clickhouse.Source
	err     error
	panics  bool
	asked   clickhouse.SpendQuery
}

func (l *ledger) Spend(_ context.Context, q clickhouse.SpendQuery) ([]clickhouse.Spend, error) {
	if l.panics {
		panic("secret")
	}
	l.asked = q
	return l.rows, l.err
}

func (l *ledger) Sources(context.Context) ([]clickhouse.Source, error) { return l.sources, l.err }

func (l *ledger) HandoffStats(context.Context, clickhouse.HandoffStatsQuery) (*clickhouse.HandoffStats, error) {
	return &clickhouse.HandoffStats{}, l.err
}

type discard struct{}

func (discard) Record(context.Context, *usage.Facts) error { return nil }

type listeners struct {
	main, push http.Handler
	log        *bytes.Buffer
}

func serve(t *testing.T, l *ledger, checks ...Check) listeners {
	t.Helper()
	reg := prometheus.NewRegistry()
	var log bytes.Buffer
	cfg := Config{
		Ledger: l, Receiver: receive.New(receive.DefaultConfig(), discard{}, nil, slog.New(slog.DiscardHandler), reg), Registry: reg,
		Ready: checks, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	return listeners{checked(t, Routes(cfg)), checked(t, PushRoutes(cfg)), &log}
}

// checked checks every answer of h against the OpenAPI document.
func checked(t *testing.T, h http.Handler) http.Handler {
	t.Helper()
	doc := openAPIDocument(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		doc.Check(t, r, rec.Result(), rec.Body.Bytes())
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

func send(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	req.Host = "127.0.0.1:8080"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func failure(t *testing.T, w *httptest.ResponseRecorder) envelope.Error {
	t.Helper()
	var e envelope.Error
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Message == "" || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		t.Fatalf("no error envelope: %d %v %s", w.Code, err, w.Body)
	}
	if e.RequestID == "" || e.RequestID != w.Header().Get(envelope.RequestIDHeader) {
		t.Errorf("request id %q, header %q", e.RequestID, w.Header().Get(envelope.RequestIDHeader))
	}
	return e
}

// TestHost: a name that resolves to loopback is not enough (DNS rebinding).
func TestHost(t *testing.T) {
	t.Parallel()
	s := serve(t, &ledger{})
	for host, ok := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:8080": true, "127.9.9.9:1": true, "localhost": true, "LOCALHOST:80": true,
		"[::1]": true, "[::1]:8080": true,
		"": false, "evil.example": false, "evil.example:8080": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false,
		"10.0.0.1:8080": false, "[::2]:80": false, "0.0.0.0:8080": false, "2130706433": false, "127.1": false,
		"127.0.0.1:8080:80": false, "localhost@evil.example": false, "evil.example#localhost": false, "[::1": false, "rebind.localhost": false,
	} {
		w := send(s.main, http.MethodGet, "/healthz", "", "Host", host)
		if ok != (w.Code == http.StatusOK) {
			t.Errorf("%q: %d", host, w.Code)
		}
		if !ok {
			if e := failure(t, w); e.Field != "Host" || w.Code != http.StatusForbidden {
				t.Errorf("%q: %d %+v", host, w.Code, e)
			}
		}
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	s := serve(t, &ledger{})
	for origin, ok := range map[string]bool{
		"":                           true,
		"http://127.0.0.1:8080":      true,
		"http://127.0.0.1:8081":      false,
		"http://localhost:8080":      false, // another name is another site
		"http://evil.example":        false,
		"null":                       false,
		"http://127.0.0.1:8080.evil": false,
		"http://evil@127.0.0.1:8080": true, // never sent: an Origin has no user
		"%zz":                        false,
	} {
		w := send(s.main, http.MethodGet, "/healthz", "", "Origin", origin)
		if ok != (w.Code == http.StatusOK) {
			t.Errorf("%q: %d", origin, w.Code)
		}
	}
	// The push listener is called under any host, by no browser.
	if w := send(s.push, http.MethodPost, "/internal/metrics/push?run_id=r", "", "Host", "tatara-operator.svc:8082"); w.Code != http.StatusNoContent {
		t.Errorf("a wrapper: %d", w.Code)
	}
	w := send(s.push, http.MethodPost, "/internal/metrics/push?run_id=r", "", "Host", "127.0.0.1:8082", "Origin", "http://127.0.0.1:8082")
	if w.Code != http.StatusForbidden || failure(t, w).Field != "Origin" {
		t.Errorf("a browser: %d", w.Code)
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	s := serve(t, &ledger{})
	for typ, ok := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON": true,
		"application/x-ndjson": true, "application/ndjson": true,
		"": false, "text/plain": false, "application/x-www-form-urlencoded": false, "multipart/form-data; boundary=x": false,
		"text/plain; application/json": false, "application/jsonx": false,
	} {
		w := send(s.main, http.MethodPut, "/v1/runs/r", "{}", "Content-Type", typ)
		if ok != (w.Code == http.StatusOK) || !ok && (w.Code != http.StatusUnsupportedMediaType || failure(t, w).Field != "Content-Type") {
			t.Errorf("%q: %d", typ, w.Code)
		}
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	s := serve(t, &ledger{})
	for id, kept := range map[string]bool{
		"abc-123 x": true, strings.Repeat("x", maxRequestID): true,
		"": false, strings.Repeat("x", maxRequestID+1): false, "a\nb": false, "é": false,
	} {
		got := send(s.main, http.MethodGet, "/healthz", "", envelope.RequestIDHeader, id).Header().Get(envelope.RequestIDHeader)
		if got == "" || kept != (got == id) {
			t.Errorf("%q became %q", id, got)
		}
	}
}

func TestRouting(t *testing.T) {
	t.Parallel()
	s := serve(t, &ledger{})
	for _, c := range []struct {
		h            http.Handler
		method, path string
		status       int
		allow        string
	}{
		{s.main, http.MethodGet, "/", 404, ""},
		{s.main, http.MethodGet, "/v1/spend/", 404, ""},
		{s.main, http.MethodGet, "/internal/metrics/push", 404, ""},
		{s.push, http.MethodGet, "/v1/spend", 404, ""},
		{s.main, http.MethodPost, "/v1/spend", 405, "GET, HEAD"},
		{s.main, http.MethodDelete, "/v1/sources", 405, "GET, HEAD"},
		{s.main, http.MethodGet, "/v1/calls", 405, "POST"},
		{s.main, "BREW", "/v1/calls", 405, "POST"},
		{s.main, http.MethodPost, "/v1/runs/a%2Fb", 405, "PUT"},
		{s.push, http.MethodGet, "/internal/metrics/push?run_id=r", 405, "POST, DELETE"},
		{s.push, http.MethodPost, "/healthz", 405, "GET, HEAD"},
	} {
		w := send(c.h, c.method, c.path, "")
		if allow := strings.Join(w.Header().Values("Allow"), ", "); w.Code != c.status || allow != c.allow {
			t.Errorf("%s %s: %d, Allow %q", c.method, c.path, w.Code, allow)
		}
		failure(t, w)
	}
}

// TestHead: what answers GET answers HEAD, as a real client sees it.
func TestHead(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(serve(t, &ledger{}).main)
	t.Cleanup(srv.Close)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/v1/spend", "/v1/sources"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || len(b) != 0 {
			t.Errorf("%s: %d, %d bytes", path, resp.StatusCode, len(b))
		}
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	ok := Check{"postgres", func(context.Context) error { return nil }}
	bad := Check{"clickhouse", func(context.Context) error { return errors.New("dial secret") }}
	if w := send(serve(t, &ledger{}, ok).main, http.MethodGet, "/readyz", ""); w.Code != 200 || w.Body.String() != `{"checks":{"postgres":"ok"}}`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s := serve(t, &ledger{}, bad, ok)
	if w := send(s.main, http.MethodGet, "/readyz", ""); w.Code != 503 || w.Body.String() != `{"checks":{"clickhouse":"away","postgres":"ok"}}`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(s.log.String(), "dial secret") {
		t.Error("the reason is not in the log")
	}
	if w := send(s.main, http.MethodGet, "/healthz", ""); w.Code != 200 {
		t.Error("the process serves all the same")
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := serve(t, &ledger{})
	send(s.main, http.MethodGet, "/v1/spend", "")
	send(s.push, "BREW", "/nowhere", "")
	body := send(s.main, http.MethodGet, "/metrics", "").Body.String()
	for _, want := range []string{
		`tatara_ledger_api_request_duration_seconds_count{code="200",method="GET",route="/v1/spend"} 1`,
		`route="none"} 1`, `method="other"`, "tatara_ledger_api_panics_total 0",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

func TestStoreErrors(t *testing.T) {
	t.Parallel()
	dial := &url.Error{Op: "Post", URL: "http://secret", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}
	for name, c := range map[string]struct {
		err    error
		status int
	}{
		"the network":            {dial, 503},
		"a timeout":              {context.DeadlineExceeded, 503},
		"a connection cut off":   {io.ErrUnexpectedEOF, 503},
		"no schema yet":          {&driver.Exception{Code: 60, Message: "Table secret does not exist"}, 503},
		"ClickHouse's exception": {&driver.Exception{Code: 241, Message: "Memory limit exceeded: secret"}, 500},
		"anything else":          {errors.New("secret"), 500},
		"too many rows":          {clickhouse.ErrTooManyRows, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &ledger{err: c.err})
			w := send(s.main, http.MethodGet, "/v1/spend?by=run", "")
			e := failure(t, w)
			if w.Code != c.status || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if (c.status == 503) != (w.Header().Get("Retry-After") == "5") {
				t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
			if c.status == 400 && e.Field != "by" {
				t.Errorf("%+v", e)
			}
			if lines := strings.Count(s.log.String(), "\n"); lines != min(1, c.status/500) {
				t.Errorf("%d lines in the log:\n%s", lines, s.log)
			}
			if c.status != 400 {
				if w := send(s.main, http.MethodGet, "/v1/sources", ""); w.Code != c.status {
					t.Errorf("sources: %d", w.Code)
				}
			}
		})
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	s := serve(t, &ledger{panics: true})
	w := send(s.main, http.MethodGet, "/v1/spend", "")
	if failure(t, w); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") || !strings.Contains(s.log.String(), "secret") {
		t.Errorf("%d %s\n%s", w.Code, w.Body, s.log)
	}
	if body := send(s.main, http.MethodGet, "/metrics", "").Body.String(); !strings.Contains(body, "tatara_ledger_api_panics_total 1") {
		t.Error("the panic was not counted")
	}
}

// TestPanicMidway: the client must not take half an answer for a whole one.
func TestPanicMidway(t *testing.T) {
	t.Parallel()
	s := &server{log: slog.New(slog.DiscardHandler), metrics: newMetrics(prometheus.NewRegistry())}
	r := chi.NewRouter()
	r.Use(s.observe)
	r.Get("/half", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("midway")
	})
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/half", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		return // cut off before its head was through
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("a whole answer: %s", b)
	}
}

// TestClient: the client gets back what the server meant.
func TestClient(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	l := &ledger{sources: []clickhouse.Source{{Feed: "push", Project: "p", First: at, Last: at}}}
	srv := httptest.NewServer(serve(t, l).main)
	t.Cleanup(srv.Close)
	c := client.New(srv.URL)
	spend, err := c.Spend(t.Context(), url.Values{"by": {"kind"}, "from": {"2026-11-30"}, "to": {"2026-12-01"}})
	if err != nil || spend.Rows == nil || len(spend.Rows) != 0 || len(spend.Sources) != 1 || spend.Total.CostUSD != nil {
		t.Errorf("%+v, %v", spend, err)
	}
	if diff := cmp.Diff([]string{"kind"}, l.asked.By); diff != "" {
		t.Error(diff)
	}
	sources, err := c.Sources(t.Context())
	if err != nil || len(sources) != 1 || !sources[0].LastHeard.Equal(at) {
		t.Errorf("%+v, %v", sources, err)
	}
	var e *envelope.Error
	if _, err := c.Spend(t.Context(), url.Values{"colour": {"red"}}); !errors.As(err, &e) || e.Status != 400 || e.Field != "colour" || e.RequestID == "" {
		t.Errorf("%+v", err)
	}
}
