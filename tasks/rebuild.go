package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// rebuild reads everything. What is known stays as it is if that fails.
func (w *Watcher) rebuild(ctx context.Context, reason string) error {
	m, err := w.readMarks(ctx, time.Time{})
	if err != nil {
		return err
	}
	split := bucketOf(m.Now.Add(-w.cfg.Window))
	b, d, err := w.load(ctx, split, m.Now)
	if err != nil {
		return err
	}
	w.book, w.dropped, w.marks, w.pending = b, d, newMarks(), map[int64]struct{}{}
	w.read, w.current = m.Now, bucketOf(m.Now)
	due, _ := w.marks.note(m, split)
	for _, bucket := range due {
		w.pending[bucket] = struct{}{}
	}
	w.base = emptySnapshot(w.seed, d)
	w.metrics.rebuilds.WithLabelValues(reason).Inc()
	return nil
}

var errTooMany = errors.New("more tasks than are kept without a reason")

// load reads all tasks or, if they are too many, those that spent lately.
func (w *Watcher) load(ctx context.Context, split int64, now time.Time) (*book, *dropped, error) {
	q := clickhouse.TaskSpendQuery{Split: timeOf(split)}
	b, err := w.loadBook(ctx, q, w.cfg.MaxTasks)
	if !errors.Is(err, errTooMany) {
		return b, newDropped(), err
	}
	totals, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	d := newDropped()
	q.ActiveSince = timeOf(bucketOf(now.Add(-w.cfg.Retain)))
	err = w.ledger.TaskTotals(totals, nil, func(t *clickhouse.TaskTotal) {
		if t.Last.Before(q.ActiveSince) {
			d.add(t.Task)
			w.metrics.dropped.Inc()
		}
	})
	if err != nil {
		return nil, nil, err
	}
	b, err = w.loadBook(ctx, q, 0)
	return b, d, err
}

// loadBook reads the pieces of a query; it gives up at more than limit tasks,
// unless that is 0.
func (w *Watcher) loadBook(ctx context.Context, q clickhouse.TaskSpendQuery, limit int) (*book, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	b, full := newBook(w.canonical, q.Split.Unix()), false
	err := w.ledger.TaskSpend(ctx, q, func(s *clickhouse.TaskSpend) {
		if full {
			return
		}
		b.put(s)
		if limit > 0 && len(b.entries) > limit {
			full = true
			cancel()
		}
	})
	if full {
		return nil, errTooMany
	}
	return b, err
}

// Lookup returns a task whether or not it is in memory. For one that was
// dropped, or before the first snapshot, it asks ClickHouse and reads all spend;
// otherwise it does not block.
func (w *Watcher) Lookup(ctx context.Context, name string) (Task, bool, error) {
	if s := w.Snapshot(); s != nil {
		if t, ok := s.Task(name); ok || !s.dropped.has(name) {
			return t, ok, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	m, err := w.ledger.TaskMarks(ctx, time.Time{})
	if err != nil {
		return Task{}, false, err
	}
	b, err := w.loadBook(ctx, clickhouse.TaskSpendQuery{
		Split: timeOf(hourFrom(bucketOf(m.Now))), Tasks: []string{name},
	}, 0)
	if err != nil || b.entries[name] == nil {
		return Task{}, false, err
	}
	return *new(summer).task(b.entries[name], bucketOf(m.Now)), true, nil
}
