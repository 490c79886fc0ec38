package tasks

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Ledger is what the watcher reads.
type Ledger interface {
	TaskMarks(ctx context.Context, since time.Time) (clickhouse.TaskMarks, error)
	TaskMonths(ctx context.Context) ([]time.Time, error)
	TaskSpend(ctx context.Context, q clickhouse.TaskQuery, use func(*clickhouse.TaskSpend)) error
	TaskTurns(ctx context.Context, q clickhouse.TaskQuery, use func(*clickhouse.TaskTurns)) error
	TaskTotals(ctx context.Context, names []string, use func(*clickhouse.TaskTotal)) error
	TaskTurnTotals(ctx context.Context, names []string, use func(*clickhouse.TaskTurns)) error
}

// Watcher keeps the snapshot up to date. Its methods are safe for concurrent
// use; Run may be called once.
type Watcher struct {
	cfg       Config
	ledger    Ledger
	canonical func(string) string
	log       *slog.Logger
	metrics   *metrics
	started   time.Time
	seed      maphash.Seed  // of all snapshots
	confirm   time.Duration // before a difference is looked at again

	snapshot atomic.Pointer[Snapshot]
	suspect  atomic.Bool   // all totals must be read anew
	first    chan struct{} // closed with the first snapshot

	// What follows belongs to the goroutine that refreshes.
	book    *book // nil before everything was read
	dropped *dropped
	marks   *marks
	pending map[int64]struct{} // buckets that must be read again
	read    time.Time          // when marks were last read, by the server's clock
	pruned  time.Time          // likewise, when tasks were last dropped
	summer  summer
	base    *Snapshot // what the changes of the book refer to
	current int64     // the current bucket at read
	failing time.Time // since when; zero: the last attempt succeeded
}

// NewWatcher returns a watcher; Run starts it. canonical gives the name by which
// a model is known to those who limit it; it must always give the same.
func NewWatcher(cfg Config, ledger Ledger, canonical func(string) string, log *slog.Logger, reg prometheus.Registerer) *Watcher {
	w := &Watcher{
		cfg: cfg, ledger: ledger, canonical: canonical, log: log.With("component", "tasks"),
		started: time.Now(), seed: maphash.MakeSeed(), confirm: peekEvery + 5*time.Second, first: make(chan struct{}),
	}
	w.metrics = newMetrics(reg, func() time.Duration {
		if s := w.Snapshot(); s != nil {
			return s.Age()
		}
		return time.Since(w.started)
	})
	return w
}

// Snapshot returns the latest totals; nil before they were first read. It never
// blocks. How old they are is for the caller to judge: see [Snapshot.Age].
func (w *Watcher) Snapshot() *Snapshot { return w.snapshot.Load() }

// Next waits for a snapshot newer than old, which may be nil. Its error is
// ctx's.
func (w *Watcher) Next(ctx context.Context, old *Snapshot) (*Snapshot, error) {
	replaced := w.first
	if old != nil {
		replaced = old.replaced
	}
	select {
	case <-replaced:
		return w.Snapshot(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Run watches until ctx ends. It returns no error: what fails is repeated.
func (w *Watcher) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error {
		every(ctx, w.cfg.Every, func() { w.note(ctx, w.refresh(ctx)) })
		return nil
	})
	g.Go(func() error {
		every(ctx, w.cfg.Reconcile, func() { w.reconcile(ctx) })
		return nil
	})
	return g.Wait()
}

// every calls do now and then at every tick, until ctx ends.
func every(ctx context.Context, d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// note logs the begin and the end of an outage, once each.
func (w *Watcher) note(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		w.metrics.failures.Inc()
		if w.failing.IsZero() {
			w.failing = time.Now()
			w.log.Warn("totals of tasks cannot be read; the last ones stay, and age", "error", err)
		}
	case !w.failing.IsZero():
		w.log.Info("totals of tasks are read again", "away_seconds", time.Since(w.failing).Seconds())
		w.failing = time.Time{}
	}
}
