package tasks

import (
	"context"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// reconcile compares all totals with those of the ledger. What differs twice
// makes everything be read anew.
func (w *Watcher) reconcile(ctx context.Context) {
	if w.Snapshot() == nil {
		return // everything is about to be read anyway
	}
	names, err := w.compare(ctx, nil)
	if err == nil && len(names) > 0 {
		// Charges of a writer that died halfway may have been seen by one query
		// and not by the other: they are looked at again in a while.
		select {
		case <-time.After(w.confirm):
			names, err = w.compare(ctx, names)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.metrics.reconciled.WithLabelValues(failed).Inc()
		w.log.Warn("totals of tasks could not be compared with the ledger", "error", err)
	case len(names) == 0:
		w.metrics.reconciled.WithLabelValues(equal).Inc()
	default:
		w.metrics.reconciled.WithLabelValues(different).Inc()
		w.metrics.differences.Add(float64(len(names)))
		w.log.Error("totals of tasks were not those of the ledger; all are read anew", "tasks", len(names), "example", names[0])
		w.suspect.Store(true)
	}
}

// compare returns the tasks, of those in only if it is not empty, whose total is
// not the ledger's though it did not change while that was read.
func (w *Watcher) compare(ctx context.Context, only []string) ([]string, error) {
	before, err := w.Next(ctx, w.Snapshot())
	if err != nil {
		return nil, err
	}
	missing := make(map[string]struct{}, before.Len())
	if only == nil {
		for t := range before.All() {
			missing[t.Name] = struct{}{}
		}
	}
	for _, name := range only {
		missing[name] = struct{}{}
	}
	differ, err := w.differing(ctx, only, before, missing)
	if err != nil {
		return nil, err
	}
	for name := range missing {
		differ[name] = figures{}
	}
	after, done := before, time.Now()
	for !after.Taken().After(done) {
		if after, err = w.Next(ctx, after); err != nil {
			return nil, err
		}
	}
	var out []string
	for name, f := range differ {
		was, is := figuresOf(before, name), figuresOf(after, name)
		isOut := is.equal(figures{}) && after.dropped.has(name)
		if was.equal(is) && !f.equal(is) && !isOut {
			out = append(out, name)
		}
	}
	return out, nil
}

// differing reads the figures of the tasks whose figures in a snapshot are
// others, and removes what it reads from missing.
func (w *Watcher) differing(ctx context.Context, only []string, s *Snapshot, missing map[string]struct{}) (map[string]figures, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	r, turns := newReader(w.canonical), map[string]*Turns{}
	err := w.ledger.TaskTurnTotals(ctx, only, func(t *clickhouse.TaskTurns) { turns[t.Task] = r.turns(t) })
	if err != nil {
		return nil, err
	}
	differ := map[string]figures{}
	err = w.ledger.TaskTotals(ctx, only, func(t *clickhouse.TaskTotal) {
		delete(missing, t.Task)
		f := figures{total: amountsOf(&t.TaskSums), runs: t.Runs}
		if known := turns[t.Task]; known != nil {
			f.turns = *known
		}
		if !f.equal(figuresOf(s, t.Task)) {
			differ[t.Task] = f
		}
	})
	return differ, err
}

// figures are what is compared.
type figures struct {
	total Amounts
	runs  uint64
	turns Turns
}

func (f figures) equal(o figures) bool {
	return f.total == o.total && f.runs == o.runs && f.turns.equal(&o.turns)
}

func figuresOf(s *Snapshot, name string) figures {
	if t := s.of(name).tasks[name]; t != nil {
		return figures{t.Total, t.Runs, t.Turns}
	}
	return figures{}
}
