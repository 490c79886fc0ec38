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
	differ := map[string]figures{}
	query, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	err = w.ledger.TaskTotals(query, only, func(t *clickhouse.TaskTotal) {
		delete(missing, t.Task)
		if f := (figures{amountsOf(&t.TaskSums), t.Runs}); f != figuresOf(before, t.Task) {
			differ[t.Task] = f
		}
	})
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
		isOut := is == figures{} && after.dropped.has(name)
		if was == is && f != is && !isOut {
			out = append(out, name)
		}
	}
	return out, nil
}

// figures are what is compared.
type figures struct {
	total Amounts
	runs  uint64
}

func figuresOf(s *Snapshot, name string) figures {
	if t := s.of(name).tasks[name]; t != nil {
		return figures{t.Total, t.Runs}
	}
	return figures{}
}
