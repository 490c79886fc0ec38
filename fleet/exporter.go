package fleet

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
)

// Ledger is what the runs pushed.
type Ledger interface {
	Clock(ctx context.Context) (uint64, error)
	PushedSince(ctx context.Context, since uint64, after clickhouse.PushedSpan, limit int) ([]clickhouse.PushedSpan, error)
	PushedTotals(ctx context.Context, runs []clickhouse.PushedSpan, cutoff time.Time) ([]clickhouse.Pushed, error)
}

// State keeps what was counted. What it writes for an epoch that is over is
// refused with [store.ErrNotHolder].
type State interface {
	OpenFleetSession(ctx context.Context, silence time.Duration) (*postgres.FleetSession, error)
	FleetWatermark(ctx context.Context) (uint64, error)
	SetFleetWatermark(ctx context.Context, epoch int64, mark uint64, forget time.Time) error
	CountFleet(ctx context.Context, epoch int64, runs []string, count func(known map[string]store.FleetRun) ([]store.FleetRun, []store.FleetIncrease)) error
	ShowFleet(ctx context.Context, epoch int64, rise bool) ([]store.FleetSeries, error)
}

// Exporter counts what the whole fleet pushed, and exposes it as an
// [http.Handler] while this replica is the one that does. It is safe for
// concurrent use; [Exporter.Run] must run once.
//
// The holder has an advisory lock of Postgres by a session of its own, and an
// epoch, without which it can write nothing. It exposes for [Config.Lease] after
// the last ping of its session that was answered. The next holder gets the lock
// when that session is over, so after that ping, and waits as long before it
// exposes: there are never two, and for a few seconds none.
type Exporter struct {
	cfg     Config
	ledger  Ledger
	state   State
	log     *slog.Logger
	metrics *metrics

	scrape sync.Mutex // one at a time, so that none sees less than the one before

	mu   sync.Mutex
	term *term // nil: another replica exposes
}

// term is the time for which this replica holds the lock.
type term struct {
	epoch int64
	since time.Time
	end   context.CancelCauseFunc

	// Of the mutex of the exporter.
	pinged    time.Time // when the last ping that was answered was sent
	refreshed time.Time // when the ledger was last read to its end

	// Of the mutex of scrapes.
	risen time.Time // when scrapes last got new values; zero: none got any
	shown []store.FleetSeries
	old   bool // the last scrape got old values
}

// NewExporter returns an exporter; [Exporter.Run] starts it.
func NewExporter(cfg Config, ledger Ledger, state State, log *slog.Logger, reg prometheus.Registerer) *Exporter {
	e := &Exporter{cfg: cfg, ledger: ledger, state: state, log: log.With("component", "fleet")}
	e.metrics = newMetrics(reg, e.leads, e.lag)
	return e
}

// Run holds the lock whenever no other replica does, and counts while it holds
// it, until ctx ends. It returns no error: a failure is repeated for as long as
// it takes.
func (e *Exporter) Run(ctx context.Context) error {
	warned := false
	for {
		err := e.compete(ctx, func() { warned = false })
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop is no failure
		}
		if !warned {
			warned = true
			e.log.Warn("the fleet's counters are not exposed by this replica for now", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		// Jittered, so that replicas do not keep step.
		case <-time.After(e.cfg.Ping/2 + rand.N(e.cfg.Ping)):
		}
	}
}

// compete tries to get the lock, and leads when it has it, until something fails.
func (e *Exporter) compete(ctx context.Context, connected func()) (err error) {
	asking, cancel := context.WithTimeout(ctx, e.cfg.Lease)
	session, err := e.state.OpenFleetSession(asking, e.cfg.Silence)
	cancel()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for {
		asking, cancel := context.WithTimeout(ctx, e.cfg.Lease)
		sent := time.Now()
		epoch, ok, err := session.Lead(asking)
		cancel()
		switch {
		case err != nil:
			return err
		case ok:
			connected()
			return e.lead(ctx, session, epoch, sent)
		}
		connected()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(e.cfg.Ping):
		}
	}
}

// lead counts and lets scrapes see it while the session lasts.
func (e *Exporter) lead(ctx context.Context, session *postgres.FleetSession, epoch int64, sent time.Time) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &term{epoch: epoch, since: time.Now(), end: end, pinged: sent}
	e.mu.Lock()
	e.term = t
	e.mu.Unlock()
	e.log.Info("this replica exposes the fleet's counters", "epoch", epoch)
	// Before the session ends: nobody else can have the lock by then.
	defer func() {
		e.mu.Lock()
		e.term = nil
		e.mu.Unlock()
		e.log.Info("this replica exposes the fleet's counters no more", "epoch", epoch)
	}()
	g, working := errgroup.WithContext(ctx)
	g.Go(func() error { return e.keepLease(working, session, t) })
	g.Go(func() error { return e.keepCounting(working, t) })
	return errors.Join(g.Wait(), context.Cause(ctx))
}

// keepLease pings until a ping fails, which ends the term at once: it cancels
// what is being counted.
func (e *Exporter) keepLease(ctx context.Context, session *postgres.FleetSession, t *term) error {
	tick := time.NewTicker(e.cfg.Ping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, e.cfg.Lease)
		sent := time.Now()
		err := session.Ping(asking)
		cancel()
		e.mu.Lock()
		if err == nil {
			t.pinged = sent
		} else {
			e.term = nil
		}
		e.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// keepCounting reads the ledger again and again until the term ends.
func (e *Exporter) keepCounting(ctx context.Context, t *term) error {
	r := reader{Exporter: e, epoch: t.epoch}
	failing := time.Time{}
	for {
		err := r.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of the term is its own reason
		case errors.Is(err, store.ErrNotHolder):
			return err
		case err != nil:
			e.metrics.failures.Inc()
			if failing.IsZero() {
				failing = time.Now()
				e.log.Warn("the fleet's counters stand still", "error", err)
			}
		default:
			if !failing.IsZero() {
				e.log.Info("the fleet's counters go on", "away_seconds", time.Since(failing).Seconds())
				failing = time.Time{}
			}
			e.mu.Lock()
			t.refreshed = time.Now()
			e.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(e.cfg.Refresh):
		}
	}
}

// exposing is the term in which scrapes see the counters, or nil.
func (e *Exporter) exposing() *term {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.term
	if t == nil || !within(t.pinged, e.cfg.Lease) || within(t.since, e.cfg.Lease+e.cfg.Lease/10) ||
		t.refreshed.IsZero() || !within(t.refreshed, e.cfg.Stale) {
		return nil
	}
	return t
}

func (e *Exporter) leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term != nil && within(e.term.pinged, e.cfg.Lease)
}

// lag is how long ago the holder last read the ledger to its end, or took the
// lock; 0 for the others.
func (e *Exporter) lag() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.term == nil:
		return 0
	case e.term.refreshed.IsZero():
		return time.Since(e.term.since)
	}
	return time.Since(e.term.refreshed)
}

// within reports whether less than d passed since t, by both clocks: the
// monotonic one stands still while a machine sleeps, the other may be set.
func within(t time.Time, d time.Duration) bool {
	now := time.Now()
	return now.Sub(t) < d && now.Round(0).Sub(t.Round(0)) < d
}

// ServeHTTP answers a scrape. Replicas that do not expose the counters answer
// 200 without any. Each GET is taken for a scrape: it lets new counters, which
// are 0 at first, rise.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var series []store.FleetSeries
	if r.Method == http.MethodGet {
		series = e.show(r.Context())
	}
	serve(w, r, series)
}

// showWithin bounds how long a scrape waits for Postgres: Prometheus gives up
// after 10 s.
const showWithin = 5 * time.Second

// show is what a scrape is to see. While Postgres does not answer, it is what
// the last one saw, for as long as the lease lasts.
func (e *Exporter) show(ctx context.Context) []store.FleetSeries {
	e.scrape.Lock()
	defer e.scrape.Unlock()
	t := e.exposing()
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, showWithin)
	defer cancel()
	// The first scrape sees the values of the holder before.
	rise := !t.risen.IsZero() && !within(t.risen, e.cfg.Hold)
	asked := time.Now()
	shown, err := e.state.ShowFleet(ctx, t.epoch, rise)
	switch {
	case errors.Is(err, store.ErrNotHolder):
		t.end(err)
		return nil
	case err != nil:
		e.metrics.scrapes.Inc()
		if !t.old {
			t.old = true
			e.log.Warn("scrapes of the fleet's counters get old values", "error", err)
		}
	default:
		t.shown, t.old = shown, false
		if rise || t.risen.IsZero() {
			t.risen = asked
		}
	}
	if e.exposing() != t {
		return nil
	}
	return t.shown
}
