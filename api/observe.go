package api

import (
	"crypto/rand"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

type metrics struct {
	duration *prometheus.HistogramVec
	panics   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tatara_ledger_api_request_duration_seconds", Help: "Time to answer, by route, method and status.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"route", "method", "code"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_api_panics_total", Help: "Requests that ended in a panic.",
		}),
	}
	// Both listeners observe into the same metrics.
	m.duration = registered(reg, m.duration)
	m.panics = registered(reg, m.panics)
	return m
}

func registered[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if err := reg.Register(c); err != nil {
		var are prometheus.AlreadyRegisteredError
		if errors.As(err, &are) {
			return are.ExistingCollector.(C)
		}
		panic(err)
	}
	return c
}

// maxRequestID bounds a request id that a client brings.
const maxRequestID = 128

// observe gives every request an id, measures it and survives its panic.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		id := r.Header.Get(envelope.RequestIDHeader)
		if id == "" || len(id) > maxRequestID || !printable(id) {
			id = rand.Text()
		}
		w.Header().Set(envelope.RequestIDHeader, id)
		out := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			p := recover()
			if cause, _ := p.(error); p != nil && !errors.Is(cause, http.ErrAbortHandler) {
				s.metrics.panics.Inc()
				s.log.Error("handler panicked", "path", r.URL.Path, "request_id", id, "panic", p, "stack", string(debug.Stack()))
				if out.Status() == 0 {
					envelope.Fail(out, nil)
					p = nil
				}
			}
			s.measure(r, out.Status(), start)
			if p != nil {
				// The answer has begun: only a broken connection tells the
				// client that it is not whole.
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(out, r)
	})
}

func (s *server) measure(r *http.Request, status int, start time.Time) {
	route := chi.RouteContext(r.Context()).RoutePattern()
	if route == "" {
		route = "none"
	}
	s.metrics.duration.WithLabelValues(route, method(r.Method), strconv.Itoa(max(status, http.StatusOK))).
		Observe(time.Since(start).Seconds())
}

// method bounds the label: a client may invent methods.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
		return m
	}
	return "other"
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
