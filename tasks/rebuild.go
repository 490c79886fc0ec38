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
	q, d := clickhouse.TaskQuery{Split: timeOf(split)}, newDropped()
	b, err := w.loadMonths(ctx, q, d, w.cfg.MaxTasks)
	if !errors.Is(err, errTooMany) {
		return b, d, err
	}
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
	if b, err = w.loadMonths(ctx, q, d, math.MaxInt); err != nil {
		return nil, nil, err
	}
	// Those that took turns long ago and spent nothing yet: when they do, their
	// turns are loaded as well.
	turns, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	err = w.ledger.TaskTurnTotals(turns, nil, func(t *clickhouse.TaskTurns) {
		if b.entries[t.Task] == nil {
			d.add(t.Task)
		}
	})
	return b, d, err
}

var errTooMany = errors.New("more tasks than are kept without a reason")

// loadMonths reads the pieces of a query month by month, so that no query reads
// without bound, but turns alone of tasks in d. It gives up at more than limit
// tasks. What changes meanwhile has marks, and is read again.
func (w *Watcher) loadMonths(ctx context.Context, q clickhouse.TaskQuery, d *dropped, limit int) (*book, error) {
	months, err := w.readMonths(ctx)
	if err != nil {
		return nil, err
	}
	b := newBook(w.canonical, q.Split.Unix())
	for _, q.Month = range months {
		pieces, err := w.pieces(ctx, b, q)
		if err != nil {
			return nil, err
		}
		for at, p := range pieces {
			// Of a task that is out, turns alone would be a part.
			if p.spent || b.entries[at.task] != nil || !d.has(at.task) {
				b.put(at.task, at.segment, p)
			}
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

// place is where a piece belongs.
type place struct {
	task string
	segment
}

// pieces reads what a query selects.
func (w *Watcher) pieces(ctx context.Context, b *book, q clickhouse.TaskQuery) (map[place]*piece, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	out := map[place]*piece{}
	err := w.ledger.TaskSpend(ctx, q, func(s *clickhouse.TaskSpend) {
		out[place{s.Task, segment{s.Start.Unix(), s.Day}}] = b.piece(s)
	})
	if err != nil {
		return nil, err
	}
	err = w.ledger.TaskTurns(ctx, q, func(s *clickhouse.TaskTurns) {
		at := place{s.Task, segment{s.Start.Unix(), s.Day}}
		if out[at] == nil {
			last := bucketOf(s.Last)
			out[at] = &piece{first: last, last: last}
		}
		out[at].turns = b.turns(s) // nobody else has the piece yet
	})
	return out, err
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
	pieces, err := w.pieces(ctx, b, clickhouse.TaskQuery{Split: timeOf(b.split), Tasks: []string{name}})
	if err != nil {
		return Task{}, false, err
	}
	e := &entry{}
	for at, p := range pieces {
		e = b.put(name, at.segment, p)
	}
	if t := new(summer).task(e, bucketOf(m.Now)); t != nil {
		return *t, true, nil
	}
	return Task{}, false, nil
}
