package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api"
	"github.com/szymonrychu/tatara-ledger/collector"
	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// service is everything that serve runs.
type service struct {
	cfg     serveConfig
	log     *slog.Logger
	engines *engine.Engines
	ledger  *clickhouse.Store
	pg      *pgxpool.Pool
	journal *journal.Journal

	writer    *collector.Writer
	closer    *collector.Closer
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
		return nil
	}
	return s.run(ctx)
}

// build connects everything and starts nothing but the embedded engines.
func build(ctx context.Context, cfg serveConfig, log *slog.Logger) (_ *service, err error) {
	s := &service{cfg: cfg, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	reg := prometheus.NewRegistry()
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
	s.forwarder = receive.NewForwarder(cfg.receive, log, reg)
	s.routes(receive.New(cfg.receive, collector.NewRecorder(s.journal, codec), s.forwarder, reg), reg)
	return s, nil
}

func (s *service) openStores(ctx context.Context, reg *prometheus.Registry) (err error) {
	if s.engines, err = engine.Start(ctx, s.cfg.engine, s.log); err != nil {
		return err
	}
	reg.MustRegister(s.engines)
	if s.pg, err = s.cfg.store.openPostgres(ctx, s.engines); err != nil {
		return err
	}
	ledger, err := s.cfg.store.ledger(s.engines)
	if err != nil {
		return err
	}
	if s.ledger, err = clickhouse.Open(ctx, ledger); err != nil {
		return err
	}
	return s.migrate(ctx)
}

// migrationLock is an advisory lock of Postgres: ClickHouse has none, and one
// replica must migrate at a time. The number is arbitrary and never changes.
const migrationLock = 0x7a7a_1ed6

func (s *service) migrate(ctx context.Context) error {
	conn, err := s.pg.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("reaching Postgres: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		return fmt.Errorf("locking the migrations: %w", err)
	}
	steps, err := s.ledger.Migrate(ctx)
	if _, e := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrationLock); e != nil {
		err = errors.Join(err, fmt.Errorf("unlocking the migrations: %w", e))
	}
	if err == nil && steps > 0 {
		s.log.Info("migrated the ClickHouse schema", "steps", steps)
	}
	return err
}

func (s *service) routes(receiver *receive.Receiver, reg *prometheus.Registry) {
	cfg := api.Config{
		Ledger: s.ledger, Receiver: receiver, Registry: reg, Log: s.log,
		Ready: []api.Check{{Name: "clickhouse", Run: s.ledger.Ping}, {Name: "postgres", Run: s.pg.Ping}},
	}
	s.main = newHTTPServer(s.cfg.listen, api.Routes(cfg))
	s.push = newHTTPServer(s.cfg.pushListen, api.PushRoutes(cfg))
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

func (s *service) run(ctx context.Context) error {
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	// Each layer outlives the one before it: requests, then the pipeline that
	// they feed, then the engines that it writes to.
	pipeline, stopPipeline := context.WithCancel(context.WithoutCancel(ctx))
	engines, stopEngines := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPipeline()
	defer stopEngines()
	var layers, below errgroup.Group
	serving, ctx := errgroup.WithContext(ctx)
	failed := func(run func(context.Context) error, c context.Context) func() error {
		return func() error {
			err := run(c)
			if err != nil {
				serving.Go(func() error { return err })
			}
			return err
		}
	}
	below.Go(failed(s.engines.Run, engines))
	layers.Go(failed(s.writer.Run, pipeline))
	layers.Go(failed(s.closer.Run, pipeline))
	if s.forwarder != nil {
		layers.Go(failed(s.forwarder.Run, pipeline))
	}
	serving.Go(func() error { return serveHTTP(ctx, s.main, listeners[0]) })
	serving.Go(func() error { return serveHTTP(ctx, s.push, listeners[1]) })
	s.log.Info("serving", "api", listeners[0].Addr().String(), "push", listeners[1].Addr().String(), "clickhouse", s.engines.ClickHouse().Addr)

	err = serving.Wait()
	s.drain()
	stopPipeline()
	err = errors.Join(err, layers.Wait())
	s.pg.Close()
	stopEngines()
	return errors.Join(err, below.Wait())
}

func (s *service) listen(ctx context.Context) ([]net.Listener, error) {
	var lc net.ListenConfig
	out := make([]net.Listener, 0, 2)
	for _, addr := range []string{s.cfg.listen, s.cfg.pushListen} {
		l, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			for _, l := range out {
				_ = l.Close()
			}
			return nil, fmt.Errorf("listening: %w", err)
		}
		out = append(out, l)
	}
	return out, nil
}

// serveHTTP serves until ctx ends, then lets running requests finish.
func serveHTTP(ctx context.Context, srv *http.Server, l net.Listener) error {
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- srv.Shutdown(wait)
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stopping the listener of %s: %w", l.Addr(), err)
	}
	return nil
}

// drain waits, bounded, until the ledger has what the journal holds. What it
// does not get by then is safe and drains at the next start.
func (s *service) drain() {
	deadline := time.Now().Add(s.cfg.drain)
	for s.journal.Stats().PendingRecords > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if n := s.journal.Stats().PendingRecords; n > 0 {
		s.log.Warn("stopping with records in the journal; they drain at the next start", "records", n)
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
	if s.pg != nil {
		s.pg.Close()
	}
	if s.engines != nil {
		errs = append(errs, s.engines.Close())
	}
	return errors.Join(errs...)
}
