package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/szymonrychu/tatara-ledger/api/auth"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
)

// Check reports whether one thing that the service needs is there.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// Config is what the routes need.
type Config struct {
	Ledger   Ledger
	Handoffs Handoffs
	Rooms    Rooms
	Tasks    Tasks
	Ceilings Ceilings
	Receiver *receive.Receiver
	// Fleet answers GET /metrics/fleet. Nil: there is no such route.
	Fleet http.Handler
	// InputPrice prices what handoffs saved. Nil: nothing has a price.
	InputPrice InputPrice
	Registry   *prometheus.Registry
	// Ready are the checks behind /readyz.
	Ready []Check
	// Auth knows who calls. Nil: nobody is asked, every caller may do
	// everything, and only loopback is answered.
	Auth *auth.Authenticator
	// MaxHandoffBytes bounds a handoff's body. Default 64 KiB: a handoff is read
	// into the context of an agent.
	MaxHandoffBytes int
	// MaxMessageBytes bounds a message's body. Default 32 KiB.
	MaxMessageBytes int
	// MaxWait is how long a poll may wait. Default 30 s: proxies cut off an idle
	// request after 60 s.
	MaxWait time.Duration
	// Stopping is closed when the service stops: it ends the waits of polls. Nil:
	// nothing does.
	Stopping <-chan struct{}
	Log      *slog.Logger
}

type server struct {
	ledger     Ledger
	handoffs   Handoffs
	rooms      Rooms
	tasks      Tasks
	ceilings   Ceilings
	receiver   *receive.Receiver
	inputPrice InputPrice
	ready      []Check
	maxHandoff int
	maxMessage int
	maxWait    time.Duration
	stopping   <-chan struct{}
	log        *slog.Logger
	metrics    *metrics
	chat       *chatMetrics
}

// Routes is the main listener's route table.
func Routes(cfg Config) http.Handler { return mainRoutes(cfg) }

func mainRoutes(cfg Config) *chi.Mux {
	s := newServer(cfg)
	r := chi.NewRouter()
	r.Use(drain, s.observe)
	if cfg.Auth == nil {
		r.Use(s.guardLoopback)
	}
	// GetHead: what answers GET answers HEAD.
	r.Use(nameSegment, middleware.GetHead)
	r.NotFound(s.handle(notFound))
	r.MethodNotAllowed(s.handle(methodNotAllowed(r)))

	r.Get("/healthz", s.handle(s.healthz))
	r.Get("/readyz", s.handle(s.readyz))
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(cfg.Registry, promhttp.HandlerOpts{Registry: cfg.Registry}))
	if cfg.Fleet != nil {
		r.Method(http.MethodGet, "/metrics/fleet", cfg.Fleet)
	}
	r.Get("/openapi.json", s.handle(openAPI()))

	r.Group(func(r chi.Router) {
		if cfg.Auth == nil {
			r.Use(everyoneIsLocal)
		} else {
			r.Use(cfg.Auth.Authenticate, cfg.Auth.Limit)
		}
		s.ledgerRoutes(routes{r, cfg.Auth == nil})
		s.chatRoutes(routes{r, cfg.Auth == nil})
		r.Route(chatPrefix, func(r chi.Router) { s.chatRoutes(routes{r, cfg.Auth == nil}) })
	})
	return r
}

// PushRoutes is the route table of the wrappers' internal listener, which
// knows no authentication.
func PushRoutes(cfg Config) http.Handler { return pushRoutes(cfg) }

func pushRoutes(cfg Config) *chi.Mux {
	s := newServer(cfg)
	r := chi.NewRouter()
	r.Use(drain, s.observe, guardOrigin, middleware.GetHead)
	r.NotFound(s.handle(notFound))
	r.MethodNotAllowed(s.handle(methodNotAllowed(r)))
	r.HandleFunc("/internal/metrics/push", cfg.Receiver.Push)
	r.Get("/healthz", s.handle(s.healthz))
	return r
}

func newServer(cfg Config) *server {
	return &server{
		ledger: cfg.Ledger, handoffs: cfg.Handoffs, rooms: cfg.Rooms, tasks: cfg.Tasks, ceilings: cfg.Ceilings, receiver: cfg.Receiver, inputPrice: cfg.InputPrice, ready: cfg.Ready,
		maxHandoff: cmp.Or(cfg.MaxHandoffBytes, 64<<10),
		maxMessage: cmp.Or(cfg.MaxMessageBytes, 32<<10),
		maxWait:    cmp.Or(cfg.MaxWait, 30*time.Second),
		stopping:   cfg.Stopping,
		log:        cfg.Log.With("component", "api"),
		metrics:    newMetrics(cfg.Registry),
		chat:       newChatMetrics(cfg.Registry),
	}
}
