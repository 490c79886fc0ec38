package evaluate

import (
	"maps"
	"time"

	"github.com/szymonrychu/tatara-ledger/store"
)

// view is what Postgres says, as of the last look at it. The evaluator's
// goroutine makes a new one at every look; it never changes, so that callers
// share it.
type view struct {
	at        time.Time // by Postgres' clock
	judge     string    // the configuration that counts
	taken     time.Time // by ours, before it was taken
	overrides map[string]store.CeilingOverride
	ends      map[string]store.TaskEnd
	alerts    map[string]map[store.AlertID]store.Alert // by task
}

// overlap is how far back a look goes again: what was set before it may have
// been committed after.
const overlap = time.Minute

// rememberEnds bounds how many ends are kept: by then every task that ended has
// been quiet for long.
const rememberEnds = 7 * 24 * time.Hour

// since is the time after which the next look asks for what was set.
func (v *view) since() time.Time {
	if v.at.IsZero() {
		return time.Time{}
	}
	return v.at.Add(-overlap)
}

// with is the view with what a look found, and the tasks that it says something
// new of.
func (v *view) with(found store.AlertView, taken time.Time) (*view, []string) {
	next := &view{at: found.At, judge: found.Judge, taken: taken, overrides: v.overrides, ends: v.ends}
	var fresh []string
	for _, o := range found.Overrides {
		if had, ok := next.overrides[o.Task]; ok && had.SetAt.Equal(o.SetAt) {
			continue
		}
		if len(fresh) == 0 {
			next.overrides = clone(v.overrides)
		}
		next.overrides[o.Task] = o
		fresh = append(fresh, o.Task)
	}
	overrides := len(fresh)
	for _, e := range found.Ends {
		if had, ok := next.ends[e.Task]; ok && had.At.Equal(e.At) {
			continue
		}
		if len(fresh) == overrides {
			next.ends = clone(v.ends)
			maps.DeleteFunc(next.ends, func(_ string, e store.TaskEnd) bool { return found.At.Sub(e.At) > rememberEnds })
		}
		next.ends[e.Task] = e
		fresh = append(fresh, e.Task)
	}
	next.alerts = map[string]map[store.AlertID]store.Alert{}
	next.add(found.Alerts)
	return next, fresh
}

// add puts alerts in the place of those of the same ids.
func (v *view) add(alerts []store.Alert) {
	for _, a := range alerts {
		of := v.alerts[a.Task]
		if of == nil {
			of = map[store.AlertID]store.Alert{}
			v.alerts[a.Task] = of
		}
		of[a.AlertID] = a
	}
}

// after is the view with changes that we made ourselves.
func (v *view) after(changed []store.Alert) *view {
	next := *v
	next.alerts = maps.Clone(v.alerts)
	for _, a := range changed {
		next.alerts[a.Task] = maps.Clone(next.alerts[a.Task])
	}
	next.add(changed)
	return &next
}

func clone[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

func (v *view) override(task string) *store.CeilingOverride {
	if o, ok := v.overrides[task]; ok {
		return &o
	}
	return nil
}

func (v *view) end(task string) *store.TaskEnd {
	if e, ok := v.ends[task]; ok {
		return &e
	}
	return nil
}
