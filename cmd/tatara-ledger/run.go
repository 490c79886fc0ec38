package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api"
)

// run serves until ctx ends or a part fails, then stops in order.
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
	ctx, stopServing := context.WithCancel(ctx)
	defer stopServing()
	var layers, below errgroup.Group
	serving, ctx := errgroup.WithContext(ctx)
	// A layer that fails ends the serving; its error comes from its own group.
	failed := func(run func(context.Context) error, c context.Context) func() error {
		return func() error {
			err := run(c)
			if err != nil {
				stopServing()
			}
			return err
		}
	}
	below.Go(failed(s.engines.Run, engines))
	layers.Go(failed(s.keepLedger, pipeline))
	layers.Go(failed(s.keepChat, pipeline))
	layers.Go(failed(s.drainOutbox, pipeline))
	layers.Go(failed(s.keepAlerting, pipeline))
	if s.forwarder != nil {
		layers.Go(failed(s.forwarder.Run, pipeline))
	}
	// Long polls end before their listener waits for them.
	context.AfterFunc(ctx, func() { close(s.stopping) })
	serving.Go(func() error { return serveHTTP(ctx, s.main, listeners[0]) })
	serving.Go(func() error { return serveHTTP(ctx, s.push, listeners[1]) })
	s.log.Info("serving", "api", listeners[0].Addr().String(), "push", listeners[1].Addr().String(), "clickhouse", s.engines.ClickHouse().Addr)

	err = serving.Wait()
	s.drain()
	stopPipeline()
	err = errors.Join(err, s.await(&layers, layerPatience))
	s.chat.Close()
	stopEngines()
	return errors.Join(err, below.Wait())
}

// layerPatience is how long the writer may finish what it began. A healthy
// ClickHouse needs less, and one that hangs would hold the stop for the whole
// timeout of an attempt, beyond what a supervisor grants.
const layerPatience = 5 * time.Second

// await waits, bounded, for the layers to end. A write that is cut off is safe:
// the journal has its facts and the next start repeats it.
func (s *service) await(layers *errgroup.Group, patience time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- layers.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		s.log.Warn("stopping in the middle of a write; what was not written stays in the journal", "waited_ms", patience.Milliseconds())
		return nil
	}
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
		out = append(out, api.Listener(l))
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

// keepLedger makes the ledger ready and then writes, closes and takes samples.
// Requests are taken meanwhile: the journal keeps what they bring.
func (s *service) keepLedger(ctx context.Context) error {
	if err := s.migrateUntilDone(ctx, "ClickHouse", s.migrateLedger, s.ledgerReady); err != nil || ctx.Err() != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.writer.Run(ctx) })
	g.Go(func() error { return s.closer.Run(ctx) })
	g.Go(func() error { return s.health.Run(ctx) })
	return g.Wait()
}

// keepChat makes the store of handoffs and rooms ready and then does what it
// does by itself. Requests wait meanwhile, as long as for any Postgres that is
// away.
func (s *service) keepChat(ctx context.Context) error {
	if err := s.migrateUntilDone(ctx, "Postgres", s.chat.Migrate, s.chatReady); err != nil || ctx.Err() != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.chat.Run(ctx) })
	g.Go(func() error { return s.sweeper.Run(ctx) })
	return g.Wait()
}

// drainOutbox copies events of handoffs and rooms to the ledger, when both
// stores are ready.
func (s *service) drainOutbox(ctx context.Context) error {
	if !waitFor(ctx, s.chatReady, s.ledgerReady) {
		return nil
	}
	return s.drainer.Run(ctx)
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
