package receive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// memory records facts, or refuses them with err.
type memory struct {
	mu    sync.Mutex
	facts usage.Facts
	err   error
	// hold, if not nil, delays every Record until it is closed.
	hold chan struct{}
	held atomic.Int32 // calls of Record that were delayed
}

func (m *memory) Record(ctx context.Context, f *usage.Facts) error {
	if m.hold != nil {
		m.held.Add(1)
		select {
		case <-m.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.facts.Events = append(m.facts.Events, f.Events...)
	m.facts.Samples = append(m.facts.Samples, f.Samples...)
	m.facts.Links = append(m.facts.Links, f.Links...)
	m.facts.Ends = append(m.facts.Ends, f.Ends...)
	m.facts.Outcomes = append(m.facts.Outcomes, f.Outcomes...)
	m.facts.Annotations = append(m.facts.Annotations, f.Annotations...)
	return nil
}

// harness is a receiver whose clock stands at noon.
type harness struct {
	*Receiver
	memory *memory
	reg    *prometheus.Registry
	routes http.Handler
}

func newHarness(t testing.TB, change func(*Config)) *harness {
	t.Helper()
	cfg := DefaultConfig()
	cfg.AdmissionWait = 20 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	h := &harness{memory: &memory{}, reg: prometheus.NewRegistry()}
	h.Receiver = New(cfg, h.memory, nil, slog.New(slog.DiscardHandler), h.reg)
	h.now = func() time.Time { return noon }
	r := chi.NewRouter()
	r.Put("/v1/runs/{run}", h.Run)
	r.Post("/v1/calls", h.Calls)
	r.Post("/v1/outcomes", h.Outcomes)
	r.Post("/v1/annotations", h.Annotations)
	r.HandleFunc("/push", h.Push)
	h.routes = r
	return h
}

func (h *harness) send(method, target, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.routes.ServeHTTP(w, req)
	return w
}

// counter is the value of a metric with these label values, in their order.
func (h *harness) counter(t testing.TB, name string, values ...string) float64 {
	t.Helper()
	families, err := h.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "tatara_ledger_receive_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if labelsAre(m.GetLabel(), values) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func labelsAre(labels []*dto.LabelPair, values []string) bool {
	if len(labels) != len(values) {
		return false
	}
	for i, l := range labels {
		if l.GetValue() != values[i] {
			return false
		}
	}
	return true
}

// refusedWith checks an answer in the error envelope and its metric.
func (h *harness) refusedWith(t *testing.T, w *httptest.ResponseRecorder, status int, feed, reason, field string) {
	t.Helper()
	var e envelope.Error
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Message == "" {
		t.Fatalf("no error envelope: %v, %.300s", err, w.Body)
	}
	if w.Code != status || e.Field != field {
		t.Errorf("%d of %q, want %d of %q: %.300s", w.Code, e.Field, status, field, w.Body)
	}
	if n := h.counter(t, "rejected_total", feed, reason); n != 1 {
		t.Errorf("rejected_total{%s,%s} is %v: %.300s", feed, reason, n, w.Body)
	}
	if h.memory.facts.Len() != 0 {
		t.Errorf("kept %d facts", h.memory.facts.Len())
	}
	if w.Body.Len() > 4096 {
		t.Errorf("an error of %d bytes", w.Body.Len())
	}
}

func answerOf(t testing.TB, w *httptest.ResponseRecorder) PostAnswer {
	t.Helper()
	var a PostAnswer
	if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&a); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return a
}

func oneCall(fields string) string {
	return fmt.Sprintf(`{"ts":"2026-11-30T11:00:00Z"%s}`, fields)
}
