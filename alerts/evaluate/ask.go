package evaluate

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

// Standing is how a task stands. A task that never spent is an
// [store.ErrNotFound]; figures that are older than they may be are an
// [store.ErrUnavailable].
func (e *Evaluator) Standing(ctx context.Context, task string) (Standing, error) {
	snapshot, v, err := e.fresh()
	if err != nil {
		return Standing{}, err
	}
	if s, ok := e.standingIn(snapshot, v, task); ok {
		return s, nil
	}
	t, ok, err := e.totals.Lookup(ctx, task)
	switch {
	case err != nil:
		return Standing{}, errors.Join(store.ErrUnavailable, err)
	case !ok:
		return Standing{}, &store.MissingError{What: "task"}
	}
	return e.stand(t, snapshot.At(), v), nil
}

// All is how all tasks stand that are in memory, in no order, and the moment
// that it is of. Errors are those of [Evaluator.Standing].
func (e *Evaluator) All() (iter.Seq[Standing], time.Time, error) {
	snapshot, v, err := e.fresh()
	if err != nil {
		return nil, time.Time{}, err
	}
	return func(yield func(Standing) bool) {
		for t := range snapshot.All() {
			if !yield(e.stand(t, snapshot.At(), v)) {
				return
			}
		}
	}, snapshot.At(), nil
}

// fresh is what answers may be given by.
func (e *Evaluator) fresh() (*tasks.Snapshot, *view, error) {
	snapshot, v := e.totals.Snapshot(), e.view.Load()
	if snapshot == nil || snapshot.Age() > e.cfg.Fresh {
		return nil, nil, errors.Join(store.ErrUnavailable, errors.New("the totals of tasks are too old: ClickHouse does not answer"))
	}
	if v.taken.IsZero() || time.Since(v.taken) > e.cfg.Fresh {
		return nil, nil, errors.Join(store.ErrUnavailable, errors.New("the ceilings of tasks are too old: Postgres does not answer"))
	}
	return snapshot, v, nil
}

func (e *Evaluator) standingIn(snapshot *tasks.Snapshot, v *view, task string) (Standing, bool) {
	t, ok := snapshot.Task(task)
	if !ok {
		return Standing{}, false
	}
	return e.stand(t, snapshot.At(), v), true
}

func (e *Evaluator) stand(t tasks.Task, at time.Time, v *view) Standing {
	return stand(e.ceilings, t, at, v.override(t.Name), v.end(t.Name))
}
