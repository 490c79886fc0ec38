package tasks

import (
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// The turns of the snapshot are the ledger's after every thing that can happen to
// them.
func TestTurnsFollowTheLedger(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, _ := newWatcher(t, l, nil)
	check := func(step string) {
		t.Helper()
		l.agrees(t, step, refresh(t, w))
	}
	has := func(step, task string, count uint64) {
		t.Helper()
		check(step)
		if x, _ := w.Snapshot().Task(task); x.Turns.Count != count {
			t.Errorf("%s: %d turns, want %d", step, x.Turns.Count, count)
		}
	}
	old, recent := turns("old", "a", "ok", at(-50*time.Hour), 1), turns("recent", "a", "ok", at(-10*time.Minute), 2)
	l.turn(t, []usage.Activity{old, recent}, nil)
	check("turns of who spent nothing")
	if w.Snapshot().Len() > 0 {
		t.Error("a task that spent nothing has figures")
	}
	l.write(t, []usage.Charge{charge("1", "a", at(-time.Hour), 1, usage.Labels{}), charge("2", "b", at(-40*time.Hour), 1, usage.Labels{})}, nil)
	has("it spends, in other buckets", "a", 3)
	l.turn(t, []usage.Activity{turns("new", "a", "failed", at(time.Second), 4), turns("more", "a", "cut", at(time.Second), 8)}, nil)
	has("two that end at once", "a", 15)
	if x, _ := w.Snapshot().Task("a"); x.Turns.LastResult != "failed" || !x.Turns.Last.Equal(at(time.Second)) {
		t.Errorf("the last turn: %+v", x.Turns)
	}
	l.turn(t, []usage.Activity{turns("late", "a", "ok", at(-30*time.Hour), 16)}, nil)
	has("late, before the window", "a", 31)
	l.turn(t, []usage.Activity{turns("late2", "a", "ok", at(-90*time.Minute), 32)}, nil)
	has("late, within the window", "a", 63)

	moved := recent
	moved.Time = at(-20 * time.Minute)
	l.turn(t, []usage.Activity{moved}, []usage.Activity{recent})
	has("in another bucket", "a", 63)
	for _, x := range []usage.Activity{old, moved} {
		x.Labels.Task = "b"
		l.turn(t, []usage.Activity{x}, nil)
	}
	has("of another task", "b", 3)
	old.Labels.Task, old.Result = "b", "cut"
	l.turn(t, []usage.Activity{old}, nil)
	has("with another result", "b", 3)
	l.turn(t, nil, []usage.Activity{old})
	has("vanished", "b", 2)

	before := w.Snapshot()
	l.close(t)
	check("closed buckets")
	if changed := slices.Collect(w.Snapshot().Changed(before)); len(changed) > 0 {
		t.Errorf("closing changed %v", changed)
	}
	again, _ := newWatcher(t, l, nil)
	for _, task := range []string{"a", "b"} {
		got, found, err := again.Lookup(t.Context(), task)
		if diff := gocmp.Diff(l.expected(t, l.now)[task], got); err != nil || !found || diff != "" {
			t.Errorf("looking %s up: found %v, error %v:\n%s", task, found, err, diff)
		}
	}
	l.agrees(t, "a restart", refresh(t, again))
	for range 12 {
		l.pass(time.Hour)
		check("time passes")
	}
	l.write(t, nil, []usage.Charge{charge("1", "a", at(-time.Hour), 1, usage.Labels{})})
	check("spend that vanishes from beside turns")
	if _, in := w.Snapshot().Task("a"); in {
		t.Error("a task has figures that spends nothing any more")
	}
}

// Turns that come between the reading of the marks and that of the sums, or under
// an open mark, are not lost.
func TestTurnsOfOpenMarks(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, _ := newWatcher(t, l, nil)
	l.write(t, one(charge("1", "a", at(0), 1, usage.Labels{})), nil)
	refresh(t, w)
	first := turns("1", "a", "ok", at(-20*time.Minute), 1)
	l.turn(t, []usage.Activity{first}, nil)
	moved := first
	moved.Time = at(-10 * time.Minute)
	l.between = func() { l.turn(t, []usage.Activity{moved}, []usage.Activity{first}) }
	l.agrees(t, "moved meanwhile", refresh(t, w))

	open := attempt{mark: 7, buckets: []time.Time{usage.Bucket(at(-30 * time.Minute))}}
	if err := l.OpenMarks(t.Context(), open.mark, open.buckets); err != nil {
		t.Fatal(err)
	}
	l.agrees(t, "opened", refresh(t, w))
	d := derived(t, l)
	d.Activity = []usage.Activity{turns("2", "a", "ok", at(-30*time.Minute), 2)}
	if err := l.AppendDerived(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	l.agrees(t, "written", refresh(t, w))
	l.complete(t, open)
	l.agrees(t, "completed", refresh(t, w))
}

func TestTurnsAddUp(t *testing.T) {
	t.Parallel()
	of := func(last time.Duration, result string, all ...TurnResult) *Turns {
		x := &Turns{ByResult: all, Last: at(last), LastResult: result}
		for _, r := range all {
			x.Count += r.Count
		}
		return x
	}
	a := of(1, "x", TurnResult{"b", 1}, TurnResult{"x", 2})
	for name, test := range map[string]struct{ x, y, want *Turns }{
		"nothing":    {nil, nil, nil},
		"to nothing": {nil, a, a},
		"others":     {a, of(2, "c", TurnResult{"a", 1}, TurnResult{"c", 1}), of(2, "c", TurnResult{"a", 1}, TurnResult{"b", 1}, TurnResult{"c", 1}, TurnResult{"x", 2})},
		"the same":   {a, of(1, "z", TurnResult{"x", 5}, TurnResult{"z", 1}), of(1, "z", TurnResult{"b", 1}, TurnResult{"x", 7}, TurnResult{"z", 1})},
	} {
		for range 2 {
			if got := test.x.plus(test.y); !got.equal(test.want) {
				t.Errorf("%s: %+v, want %+v", name, got, test.want)
			}
			test.x, test.y = test.y, test.x
		}
	}
	if diff := gocmp.Diff(of(1, "x", TurnResult{"b", 1}, TurnResult{"x", 2}), a); diff != "" {
		t.Errorf("adding changed what was added:\n%s", diff)
	}
}
