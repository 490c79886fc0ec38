package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Check reports whether one thing that the service needs is there.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// Config is what the routes need.
type Config struct {
	Ledger   Ledger
	Receiver *receive.Receiver
	Registry *prometheus.Registry
	// Ready are the checks behind /readyz.
	Ready []Check
	Log   *slog.Logger
}

type server struct {
	ledger  Ledger
	ready   []Check
	log     *slog.Logger
	metrics *metrics
}

// Routes is the main listener's route table.
func Routes(cfg Config) http.Handler {
	s := newServer(cfg)
	r := chi.NewRouter()
	// GetHead: what answers GET answers HEAD.
	r.Use(s.observe, s.guardLoopback, middleware.GetHead)
	r.NotFound(s.handle(notFound))
	r.MethodNotAllowed(s.handle(methodNotAllowed(r)))

	r.Get("/healthz", s.handle(s.healthz))
	r.Get("/readyz", s.handle(s.readyz))
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(cfg.Registry, promhttp.HandlerOpts{Registry: cfg.Registry}))

	r.Get("/v1/spend", s.handle(s.spend))
	r.Get("/v1/sources", s.handle(s.sources))
	r.With(demandJSON).Post("/v1/calls", cfg.Receiver.Calls)
	r.With(demandJSON).Put("/v1/runs/{run}", cfg.Receiver.Run)
	return r
}

// PushRoutes is the route table of the wrappers' internal listener, which
// knows no authentication.
func PushRoutes(cfg Config) http.Handler {
	s := newServer(cfg)
	r := chi.NewRouter()
	r.Use(s.observe, guardOrigin, middleware.GetHead)
	r.NotFound(s.handle(notFound))
	r.MethodNotAllowed(s.handle(methodNotAllowed(r)))
	r.HandleFunc("/internal/metrics/push", cfg.Receiver.Push)
	r.Get("/healthz", s.handle(s.healthz))
	return r
}

func newServer(cfg Config) *server {
	return &server{
		ledger: cfg.Ledger, ready: cfg.Ready,
		log:     cfg.Log.With("component", "api"),
		metrics: newMetrics(cfg.Registry),
	}
}

// handle adapts a handler that returns its error. An error that a client may
// not see is logged here, once.
func (s *server) handle(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		status := envelope.Fail(w, answerOf(err))
		if status < http.StatusInternalServerError || r.Context().Err() != nil {
			return
		}
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "status", status,
			"request_id", w.Header().Get(envelope.RequestIDHeader), "error", err)
	}
}

// answerOf is what a client sees of an error: a store that cannot be reached
// is a 503.
func answerOf(err error) error {
	var known *envelope.Error
	switch {
	case errors.As(err, &known):
	case clickhouse.IsAway(err):
		return &envelope.Error{Status: http.StatusServiceUnavailable, Message: "the store does not answer", Retry: 5 * time.Second}
	}
	return err
}

func notFound(http.ResponseWriter, *http.Request) error {
	return &envelope.Error{Status: http.StatusNotFound, Message: "no such route", Hint: "see docs/api.md"}
}

// methodNotAllowed names the methods that the path does have.
func methodNotAllowed(routes chi.Routes) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		path := r.URL.EscapedPath()
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			as := m
			if m == http.MethodHead { // see GetHead
				as = http.MethodGet
			}
			if routes.Match(chi.NewRouteContext(), as, path) {
				w.Header().Add("Allow", m)
			}
		}
		return &envelope.Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed", Hint: "see docs/api.md"}
	}
}
