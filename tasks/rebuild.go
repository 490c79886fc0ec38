package tasks

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// rebuild reads everything. What is known stays as it is if that fails.
func (w *Watcher) rebuild(ctx context.Context, reason string) error {
	m, err := w.readMarks(ctx, time.Time{}) // for the server's clock
	if err != nil {
		return err
	}
	if m, err = w.readMarks(ctx, m.Now.Add(-overlap)); err != nil {
		return err
	}
	split := bucketOf(m.Now.Add(-w.cfg.Window))
	b, d, err := w.load(ctx, split, m.Now)
	if err != nil {
		return err
	}
	w.book, w.dropped, w.marks, w.pending = b, d, newMarks(), map[int64]struct{}{}
	w.read, w.current = m.Now, bucketOf(m.Now)
	w.marks.note(m, split) // nothing is due: all was read after them
	w.base = emptySnapshot(w.seed, d)
	w.metrics.rebuilds.WithLabelValues(reason).Inc()
	return nil
}

// load reads all tasks or, if they are too many, those that spent lately.
func (w *Watcher) load(ctx context.Context, split int64, now time.Time) (*book, *dropped, error) {
	q := clickhouse.TaskSpendQuery{Split: timeOf(split)}
	b, err := w.loadMonths(ctx, q, w.cfg.MaxTasks)
	if !errors.Is(err, errTooMany) {
		return b, newDropped(), err
	}
	d := newDropped()
	q.ActiveSince = timeOf(bucketOf(now.Add(-w.cfg.Retain)))
	totals, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	err = w.ledger.TaskTotals(totals, nil, func(t *clickhouse.TaskTotal) {
		if t.Last.Before(q.ActiveSince) {
			d.add(t.Task)
			w.metrics.dropped.Inc()
		}
	})
	if err != nil {
		return nil, nil, err
	}
	b, err = w.loadMonths(ctx, q, math.MaxInt)
	return b, d, err
}

var errTooMany = errors.New("more tasks than are kept without a reason")

// loadMonths reads the pieces of a query month by month, so that no query
// reads without bound. It gives up at more than limit tasks. What changes
// meanwhile has marks, and is read again.
func (w *Watcher) loadMonths(ctx context.Context, q clickhouse.TaskSpendQuery, limit int) (*book, error) {
	months, err := w.readMonths(ctx)
	if err != nil {
		return nil, err
	}
	b := newBook(w.canonical, q.Split.Unix())
	for _, q.Month = range months {
		if err := w.loadInto(ctx, b, q); err != nil {
			return nil, err
		}
		if len(b.entries) > limit {
			return nil, errTooMany
		}
	}
	return b, nil
}

func (w *Watcher) readMonths(ctx context.Context) ([]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	return w.ledger.TaskMonths(ctx)
}

// loadInto adds the pieces of a query to a book.
func (w *Watcher) loadInto(ctx context.Context, b *book, q clickhouse.TaskSpendQuery) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	return w.ledger.TaskSpend(ctx, q, func(s *clickhouse.TaskSpend) { b.put(s) })
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
	m, err := w.readMarks(ctx, time.Time{})
	if err != nil {
		return Task{}, false, err
	}
	b := newBook(w.canonical, hourFrom(bucketOf(m.Now)))
	err = w.loadInto(ctx, b, clickhouse.TaskSpendQuery{Split: timeOf(b.split), Tasks: []string{name}})
	if err != nil || b.entries[name] == nil {
		return Task{}, false, err
	}
	return *new(summer).task(b.entries[name], bucketOf(m.Now)), true, nil
}
