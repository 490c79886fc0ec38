package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

const (
	// rounds bounds how often one refresh looks whether anything came meanwhile.
	rounds = 4
	// marksKept is how long an absence may be before marks could be gone: closed
	// ones are deleted after a day.
	marksKept = 20 * time.Hour
	// pruneEvery is how often tasks are looked through for some to drop.
	pruneEvery = time.Minute
)

// errGap says that marks may have been missed.
var errGap = errors.New("marks may have been missed")

// refresh brings the totals up to date and publishes them.
//
// Marks are read before the sums, so that one which is completed in between is
// seen the next time. They are read again after the sums, until nothing came
// meanwhile: the sums may hold charges of a mark that was opened since, in one
// of its buckets and not in another, and a charge that moves from one to the
// other would count twice.
func (w *Watcher) refresh(ctx context.Context) error {
	start := time.Now()
	switch {
	case w.book == nil:
		if err := w.rebuild(ctx, atStart); err != nil {
			return err
		}
	case w.suspect.Load():
		if err := w.rebuild(ctx, difference); err != nil {
			return err
		}
		w.suspect.Store(false)
	}
	var at, taken time.Time
	for round := range rounds {
		before := time.Now()
		news, err := w.look(ctx)
		if errors.Is(err, errGap) {
			if err = w.rebuild(ctx, afterGap); err == nil {
				news, err = w.look(ctx)
			}
		}
		if err != nil {
			return err
		}
		at, taken = w.read, before
		if round > 0 && !news {
			break
		}
		if len(w.pending) == 0 {
			break
		}
		if err := w.reread(ctx); err != nil {
			return err
		}
	}
	w.prune()
	w.publish(at, taken)
	w.metrics.refresh.Observe(time.Since(start).Seconds())
	return nil
}

// look reads the marks and notes which buckets must be read again.
func (w *Watcher) look(ctx context.Context) (news bool, err error) {
	m, err := w.readMarks(ctx, w.read.Add(-overlap))
	if err != nil {
		return false, err
	}
	// A server's clock that went far back would ask for the hour of buckets
	// that are kept by the day.
	if m.Now.Sub(w.read) > marksKept || hourFrom(bucketOf(m.Now)) < w.book.split {
		return false, errGap
	}
	w.read = m.Now
	// In this order: buckets of the last hour may leave the window at once.
	if current := bucketOf(m.Now); current != w.current {
		w.book.roll(w.current, current)
		w.current = current
	}
	w.book.advance(bucketOf(m.Now.Add(-w.cfg.Window)))
	due, news := w.marks.note(m, w.book.split)
	for _, b := range due {
		w.pending[b] = struct{}{}
	}
	return news, nil
}

func (w *Watcher) readMarks(ctx context.Context, since time.Time) (clickhouse.TaskMarks, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout/12)
	defer cancel()
	return w.ledger.TaskMarks(ctx, since)
}

func bucketOf(t time.Time) int64 { return usage.Bucket(t).Unix() }

func timeOf(bucket int64) time.Time { return time.Unix(bucket, 0).UTC() }

// reread reads the segments of the pending buckets and replaces what was known
// of them. If it fails, they stay pending.
func (w *Watcher) reread(ctx context.Context) error {
	q := clickhouse.TaskQuery{Split: timeOf(w.book.split), Partly: true}
	found := map[segment]map[*entry]struct{}{}
	for b := range w.pending {
		seg := w.book.segmentOf(b)
		if found[seg] != nil {
			continue
		}
		found[seg] = map[*entry]struct{}{}
		if seg.day {
			q.Days = append(q.Days, timeOf(seg.start))
		} else {
			q.Buckets = append(q.Buckets, timeOf(seg.start))
		}
	}
	pieces, err := w.pieces(ctx, w.book, q)
	if err != nil {
		return err
	}
	back := map[string]struct{}{}
	for at, p := range pieces {
		switch {
		case w.book.entries[at.task] != nil || !w.dropped.has(at.task):
			found[at.segment][w.book.put(at.task, at.segment, p)] = struct{}{}
		case p.spent && p.last >= bucketOf(w.cutoff()):
			back[at.task] = struct{}{}
		}
	}
	if err := w.restore(ctx, back, found); err != nil {
		return err
	}
	for seg, kept := range found {
		w.book.keepOnly(seg, kept)
	}
	clear(w.pending)
	return nil
}

// restore loads tasks that were dropped and spent again.
func (w *Watcher) restore(ctx context.Context, names map[string]struct{}, found map[segment]map[*entry]struct{}) error {
	if len(names) == 0 {
		return nil
	}
	q := clickhouse.TaskQuery{Split: timeOf(w.book.split)}
	for name := range names {
		q.Tasks = append(q.Tasks, name)
	}
	pieces, err := w.pieces(ctx, w.book, q) // all or none: a part of a task must not be in the book
	if err != nil {
		return err
	}
	for at, p := range pieces {
		e := w.book.put(at.task, at.segment, p)
		if kept := found[at.segment]; kept != nil {
			kept[e] = struct{}{}
		}
	}
	w.metrics.returned.Add(float64(len(names)))
	return nil
}

// cutoff is the last spend of tasks that may be dropped.
func (w *Watcher) cutoff() time.Time { return w.read.Add(-w.cfg.Retain) }

// prune drops tasks that have not spent for long, if there are too many.
func (w *Watcher) prune() {
	if w.read.Sub(w.pruned) < pruneEvery || len(w.book.entries) <= w.cfg.MaxTasks {
		return
	}
	w.pruned = w.read
	cutoff := bucketOf(w.cutoff())
	for _, e := range w.book.entries {
		if e.last() < cutoff {
			w.dropped.add(e.name)
			w.book.forget(e)
			w.metrics.dropped.Inc()
		}
	}
}

// publish makes a snapshot of the book.
func (w *Watcher) publish(at, taken time.Time) {
	changed := make(map[string]*Task, len(w.book.changed))
	for name, e := range w.book.changed {
		changed[name] = w.summer.task(e, w.current)
	}
	clear(w.book.changed)
	w.base = w.base.with(at, taken, changed)
	old := w.snapshot.Swap(w.base)
	w.metrics.timestamp.Set(float64(at.UnixMilli()) / 1000)
	w.metrics.tasks.Set(float64(w.base.n))
	if old == nil {
		close(w.first)
	} else {
		close(old.replaced)
	}
}
