package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/szymonrychu/tatara-ledger/api"
	"github.com/szymonrychu/tatara-ledger/api/auth"
	"github.com/szymonrychu/tatara-ledger/collector"
	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/health"
	"github.com/szymonrychu/tatara-ledger/outbox"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
)

// service is everything that serve runs.
type service struct {
	cfg     serveConfig
	log     *slog.Logger
	engines *engine.Engines
	ledger  *clickhouse.Store
	chat    *postgres.Store
	journal *journal.Journal

	// Closed when the store's schema is there.
	ledgerReady, chatReady chan struct{}
	stopping               chan struct{} // closed when no more requests are taken

	writer    *collector.Writer
	closer    *collector.Closer
	sweeper   *postgres.Sweeper
	drainer   *outbox.Drainer[store.Event]
	alerting  *alerting
	registry  *prometheus.Registry
	health    *health.Sampler
	forwarder *receive.Forwarder
	main      *http.Server
	push      *http.Server
}

// serve builds the service, runs it until ctx ends, and stops it in order:
// listeners, then the writer when the journal is drained, then the clients,
// then the engines.
func serve(ctx context.Context, cfg serveConfig, stderr io.Writer) (err error) {
	log := newLogger(stderr, cfg.logLevel)
	s, err := build(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if cfg.check {
		return s.check(ctx)
	}
	return s.run(ctx)
}

// check reports a store that cannot be reached. It changes nothing in either.
func (s *service) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() {
		const unknownDatabase = 81 // it answers, and the first migration creates that
		err := s.ledger.Ping(ctx)
		if code, ok := clickHouseCode(err); !ok || code != unknownDatabase {
			errs[0] = err
		}
	})
	both.Go(func() { errs[1] = s.chat.Ping(ctx) })
	both.Wait()
	return errors.Join(errs[:]...)
}

// build connects everything and starts nothing but the embedded engines.
func build(ctx context.Context, cfg serveConfig, log *slog.Logger) (_ *service, err error) {
	s := &service{
		cfg: cfg, log: log,
		ledgerReady: make(chan struct{}), chatReady: make(chan struct{}), stopping: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	reg := prometheus.NewRegistry()
	s.registry = reg
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	book, err := pricing.LoadFile(cfg.prices)
	if err != nil {
		return s, err
	}
	pattern, err := cfg.pattern()
	if err != nil {
		return s, err
	}
	if err := s.openStores(ctx, reg); err != nil {
		return s, err
	}
	if s.journal, err = journal.Open(cfg.journal, log, reg); err != nil {
		return s, fmt.Errorf("opening the journal: %w", err)
	}
	codec, err := collector.NewCodec()
	if err != nil {
		return s, err
	}
	aside := collector.NewAside(filepath.Join(cfg.engine.DataDir, "aside"))
	s.writer = collector.NewWriter(cfg.collector, s.journal, codec, s.ledger, derive.New(book, pattern), aside, log, reg)
	s.closer = collector.NewCloser(cfg.collector, s.ledger, log, reg)
	s.drainer = outbox.NewDrainer(outbox.DefaultConfig(), "chat", s.chat,
		outbox.Sink[store.Event]{Name: "clickhouse", Take: s.ledger.AppendChatEvents}, log, reg)
	s.health = health.New(cfg.health, reg, s.ledger, log)
	s.forwarder = receive.NewForwarder(cfg.receive, log, reg)
	s.cfg.api.InputPrice = inputPrice(book)
	checks := s.checks()
	if s.alerting, err = s.newAlerting(book, checks, log, reg); err != nil {
		return s, err
	}
	return s, s.routes(checks, receive.New(cfg.receive, collector.NewRecorder(s.journal, codec), s.forwarder, s.log, reg), reg)
}

// inputPrice looks an input token's price up by the row that a charge names.
func inputPrice(book *pricing.Book) api.InputPrice {
	prices := map[string]uint64{}
	for _, row := range book.Rows() {
		if row.Input.Valid {
			prices[row.Ref()] = uint64(row.Input.Rate)
		}
	}
	return func(row string) (uint64, bool) {
		price, ok := prices[row]
		return price, ok
	}
}

func (s *service) openStores(ctx context.Context, reg *prometheus.Registry) (err error) {
	if s.engines, err = engine.Start(ctx, s.cfg.engine, s.log); err != nil {
		return err
	}
	reg.MustRegister(s.engines)
	chat, err := s.cfg.postgres.chat(s.engines)
	if err != nil {
		return err
	}
	if s.chat, err = postgres.Open(ctx, chat, s.log, reg); err != nil {
		return err
	}
	ledger, err := s.cfg.clickHouse.ledger(s.engines)
	if err != nil {
		return err
	}
	s.ledger, err = clickhouse.Open(ledger)
	return err
}

// checks are what the service needs.
func (s *service) checks() []api.Check {
	return []api.Check{
		{Name: "clickhouse", Run: s.ledger.Ping},
		{Name: "clickhouse_schema", Run: migrated(s.ledgerReady)},
		{Name: "postgres", Run: s.chat.Ping},
		{Name: "postgres_schema", Run: migrated(s.chatReady)},
	}
}

func (s *service) routes(checks []api.Check, receiver *receive.Receiver, reg *prometheus.Registry) (err error) {
	cfg := s.cfg.api
	cfg.Ledger, cfg.Handoffs, cfg.Rooms, cfg.Receiver = s.ledger, s.chat, s.chat, receiver
	cfg.Registry, cfg.Log, cfg.Stopping = reg, s.log, s.stopping
	cfg.Ready = checks
	cfg.Tasks, cfg.Ceilings, cfg.Fleet = s.alerting.evaluator, s.chat, s.alerting.fleet
	if s.cfg.auth.Enabled() {
		if cfg.Auth, err = auth.New(s.cfg.auth, s.log, reg); err != nil {
			return err
		}
	}
	s.cfg.sweep.Webhook = s.alerting.sender.Webhook() != nil
	s.sweeper = postgres.NewSweeper(s.cfg.sweep, s.chat, api.Expired(reg), s.log, reg)
	s.main = newHTTPServer(s.cfg.listen, api.Routes(cfg))
	s.push = newHTTPServer(s.cfg.pushListen, api.PushRoutes(cfg))
	return nil
}

func newHTTPServer(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		// A query may take as long as the store lets it.
		WriteTimeout: 3 * time.Minute,
		IdleTimeout:  2 * time.Minute,
	}
}

// close gives back whatever build took, in reverse.
func (s *service) close() error {
	var errs []error
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.ledger != nil {
		errs = append(errs, s.ledger.Close())
	}
	if s.chat != nil {
		s.chat.Close()
	}
	if s.engines != nil {
		errs = append(errs, s.engines.Close())
	}
	return errors.Join(errs...)
}
