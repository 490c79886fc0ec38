package tasks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// at is a time before, or after, the moment at which tests begin.
func at(d time.Duration) time.Time { return noon.Add(d) }

func one(c usage.Charge) []usage.Charge { return []usage.Charge{c} }

// The snapshot is the ledger after every thing that can happen to charges.
func TestFiguresFollowTheLedger(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, _ := newWatcher(t, l, nil)
	check := func(step string) {
		t.Helper()
		l.agrees(t, step, refresh(t, w))
	}
	review := usage.Labels{Project: "demo", Repo: "acme/widgets", Kind: "review", Issue: "acme/widgets#1", Run: "r1", Session: "s1", Model: "opus@1"}
	check("an empty ledger")

	recent, old := charge("recent", "a", at(-10*time.Minute), 5, review), charge("old", "a", at(-50*time.Hour), 7, review)
	l.write(t, []usage.Charge{recent, old, charge("other", "b", at(-50*time.Hour), 11, review)}, nil)
	check("new charges")

	refine := review
	refine.Kind, refine.Run, refine.Model, refine.Agent = "refine", "r2", "opus@2", "Explore"
	l.write(t, one(charge("late", "a", at(-30*time.Hour), 100, refine)), nil)
	check("a late charge before the window")
	l.write(t, one(charge("late2", "a", at(-90*time.Minute), 100, refine)), nil)
	check("a late charge within the window")

	unpriced := charge("unpriced", "c", at(0), 0, review)
	unpriced.Cost, unpriced.UnpricedTokens, unpriced.Requests = usage.NullNano{}, 10, 0
	uncounted := charge("uncounted", "d", at(0), 1, review)
	uncounted.Counted = false
	l.write(t, []usage.Charge{unpriced, uncounted, charge("nobody's", "", at(0), 1, review)}, nil)
	check("what has no price, is not counted, or has no task")

	for _, c := range []*usage.Charge{&recent, &old} {
		c.Labels.Task = "b"
		l.write(t, one(*c), nil)
		check("spend that moves to another task")
	}
	l.write(t, nil, one(old))
	check("spend that vanishes")
	l.write(t, nil, one(unpriced))
	check("a task that vanishes")

	before := w.Snapshot()
	l.close(t)
	check("closed buckets")
	if changed := slices.Collect(w.Snapshot().Changed(before)); len(changed) > 0 {
		t.Errorf("closing changed %v", changed)
	}
	l.write(t, one(charge("reopens", "a", at(-30*time.Hour), 3, review)), nil)
	check("a closed bucket that is opened again")

	again, _ := newWatcher(t, l, nil)
	l.agrees(t, "a restart", refresh(t, again))
	if n := len(slices.Collect(again.Snapshot().Changed(nil))); n != again.Snapshot().Len() {
		t.Errorf("%d of %d tasks differ from nothing", n, again.Snapshot().Len())
	}
}

// Time alone moves spend out of the hour, and buckets out of the window.
func TestTimePasses(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, _ := newWatcher(t, l, nil)
	var charges []usage.Charge
	for i := range 40 {
		l := usage.Labels{Kind: "review", Run: fmt.Sprint("r", i/5), Session: "s", Agent: fmt.Sprint("a", i%7), Model: fmt.Sprint("m@", i%3)}
		charges = append(charges, charge(fmt.Sprint(i), fmt.Sprint("t", i%3), at(time.Duration(i-35)*4*time.Minute), usage.Nano(i), l))
	}
	l.write(t, charges, nil)
	l.agrees(t, "at first", refresh(t, w))
	for i := range 30 { // across midnight
		before, end := w.Snapshot(), l.now
		l.pass(26 * time.Minute)
		l.agrees(t, fmt.Sprint("step ", i), refresh(t, w))
		if i%10 == 0 {
			late := charges[i/10]
			late.ID = usage.Hash("late", fmt.Sprint(i))
			l.write(t, one(late), nil)
			l.agrees(t, fmt.Sprint("late at step ", i), refresh(t, w))
		}
		if end.Sub(noon) > 2*time.Hour && i%10 != 1 && i%10 != 0 && len(slices.Collect(w.Snapshot().Changed(before))) > 0 {
			t.Errorf("step %d: tasks changed that did not spend for an hour", i)
		}
	}
	for seg := range w.book.segments {
		if !seg.day {
			t.Errorf("bucket %v is still kept by itself", timeOf(seg.start))
		}
	}
}

// Charges are visible before their marks are completed, and whatever comes
// between the reading of the marks and that of the sums is not lost.
func TestChargesOfOpenMarks(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, _ := newWatcher(t, l, nil)
	refresh(t, w)
	near := l.open(t, one(charge("1", "a", at(0), 1, usage.Labels{})), nil)
	l.agrees(t, "open", refresh(t, w))
	if err := l.AppendDerived(t.Context(), derived(t, l, charge("2", "a", at(0), 2, usage.Labels{}))); err != nil {
		t.Fatal(err)
	}
	l.agrees(t, "more of an open mark", refresh(t, w))
	far := l.open(t, one(charge("3", "a", at(-50*time.Hour), 4, usage.Labels{})), nil)
	l.agrees(t, "open before the window", refresh(t, w))
	if err := l.AppendDerived(t.Context(), derived(t, l, charge("4", "a", at(-50*time.Hour), 8, usage.Labels{}))); err != nil {
		t.Fatal(err)
	}
	l.pass(peekEvery)
	l.agrees(t, "more of that", refresh(t, w))
	l.complete(t, near)
	l.between = func() {
		l.write(t, one(charge("5", "a", at(-40*time.Hour), 16, usage.Labels{})), nil)
		l.complete(t, far)
	}
	l.agrees(t, "completed meanwhile", refresh(t, w))
}

// A charge that moves from one bucket to another while the sums are read is in
// one of them, not in both.
func TestAMoveIsSeenWhole(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, _ := newWatcher(t, l, nil)
	c := charge("moves", "a", at(-20*time.Minute), 1000, usage.Labels{})
	l.write(t, one(c), nil)
	refresh(t, w)
	l.write(t, one(charge("news", "a", at(-10*time.Minute), 1, usage.Labels{})), nil)
	moved := c
	moved.Time = at(-10 * time.Minute)
	l.between = func() { l.write(t, one(moved), one(c)) }
	l.agrees(t, "moved", refresh(t, w))
}

func TestTasksThatAreTooMany(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	few := func(c *Config) { c.MaxTasks = 2 }
	w, _ := newWatcher(t, l, few)
	for i, days := range []int{20, 10, 8, 6, 0} {
		l.write(t, one(charge(fmt.Sprint(i), fmt.Sprint("t", i), noon.AddDate(0, 0, -days), usage.Nano(1+i), usage.Labels{Kind: "review"})), nil)
		l.turn(t, []usage.Activity{turns(fmt.Sprint(i), fmt.Sprint("t", i), "ok", noon.AddDate(0, 0, -days), uint64(1+i))}, nil)
	}
	// Turns of one whose spend is long ago, and of some that spent nothing yet.
	l.turn(t, []usage.Activity{turns("t2", "t2", "failed", noon, 1), turns("u", "u", "ok", noon.AddDate(0, 0, -40), 1), turns("v", "v", "ok", noon.AddDate(0, 0, -3), 1)}, nil)
	holds := func(step string, w *Watcher, want ...string) {
		t.Helper()
		s := refresh(t, w)
		expected := l.expected(t, l.now)
		for name, x := range expected {
			got, in := s.Task(name)
			if in != slices.Contains(want, name) {
				t.Errorf("%s: task %s in memory: %v", step, name, in)
			}
			if diff := gocmp.Diff(x, got); in && diff != "" {
				t.Errorf("%s: %s:\n%s", step, name, diff)
			}
			got, found, err := w.Lookup(t.Context(), name)
			if diff := gocmp.Diff(x, got); err != nil || !found || diff != "" {
				t.Errorf("%s: looking %s up: found %v, error %v:\n%s", step, name, found, err, diff)
			}
		}
		for _, name := range []string{"unheard of", "u", "v"} {
			if _, known := expected[name]; known {
				continue
			}
			if _, found, err := w.Lookup(t.Context(), name); found || err != nil {
				t.Errorf("%s: %s, which never spent: found %v, error %v", step, name, found, err)
			}
		}
	}
	holds("at the start", w, "t3", "t4")
	if n := testutil.ToFloat64(w.metrics.dropped); n != 3 {
		t.Errorf("%v tasks dropped, want 3", n)
	}
	// Late spend of a time that is not retained leaves a task where it is.
	l.write(t, one(charge("late", "t1", noon.AddDate(0, 0, -9), 10, usage.Labels{Kind: "review"})), nil)
	holds("old spend of a dropped task", w, "t3", "t4")
	l.turn(t, []usage.Activity{turns("back", "t0", "ok", noon, 1)}, nil)
	holds("turns alone of a dropped task", w, "t3", "t4")
	l.write(t, one(charge("back", "t0", noon, 100, usage.Labels{Kind: "review"})), nil)
	holds("a dropped task spends again", w, "t0", "t3", "t4")
	if n := testutil.ToFloat64(w.metrics.returned); n != 1 {
		t.Errorf("%v tasks returned, want 1", n)
	}
	l.pass(2 * 24 * time.Hour)
	holds("two days later", w, "t0", "t4")
	for range 30 {
		l.pass(6 * time.Hour)
		refresh(t, w)
	}
	holds("only two are left", w, "t0", "t4") // not more than are kept without a reason

	if names, err := compareOnce(t, w, nil); err != nil || len(names) > 0 {
		t.Errorf("compared: %v, error %v", names, err)
	}
	l.now = noon
	again, _ := newWatcher(t, l, few)
	holds("after a restart", again, "t0", "t3", "t4")
	for _, name := range []string{"u", "v"} {
		l.write(t, one(charge(name, name, noon, 1, usage.Labels{Kind: "review"})), nil)
	}
	holds("what had only turns spends", again, "t0", "t3", "t4", "u", "v")
}

// Random writes, moves, withdrawals, closings, restarts and leaps in time.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			randomHistory(t, rand.New(rand.NewPCG(seed, 4)))
		})
	}
}

func randomHistory(t *testing.T, r *rand.Rand) {
	l := newLedger(t)
	w, _ := newWatcher(t, l, nil)
	var (
		live   []usage.Charge
		opened []attempt
	)
	pick := func(prefix string, n int) string {
		if i := r.IntN(n); i > 0 {
			return fmt.Sprint(prefix, i)
		}
		return ""
	}
	relabel := func(c *usage.Charge) {
		c.Labels = usage.Labels{
			Project: pick("p", 3), Repo: pick("r", 3), Kind: pick("k", 4), Task: pick("t", 8), Issue: pick("i", 3),
			Run: pick("run", 9), Session: pick("s", 4), Model: pick("m", 4) + pick("@", 3), Agent: pick("a", 5),
		}
	}
	fresh := func(i int) usage.Charge {
		back := time.Duration(r.Int64N(int64(3 * time.Hour)))
		if r.IntN(3) == 0 {
			back = time.Duration(r.Int64N(int64(80 * time.Hour)))
		}
		c := charge(fmt.Sprint(i), "", l.now.Add(5*time.Minute-back).Truncate(time.Millisecond), usage.Nano(r.IntN(1000)), usage.Labels{})
		relabel(&c)
		c.Approximate, c.Estimated, c.Counted = r.IntN(9) == 0, r.IntN(9) == 0, r.IntN(9) > 0
		if r.IntN(4) == 0 {
			c.Cost, c.UnpricedTokens, c.Requests = usage.NullNano{}, c.Tokens.Total(), 0
		}
		return c
	}
	taken := map[string]usage.Activity{}
	someTurns := func(step int) (took, withdrawn []usage.Activity) {
		for j := range r.IntN(4) {
			name := fmt.Sprint(step, "-", j)
			a := turns(name, pick("t", 8), pick("result", 4), fresh(0).Time, 1+r.Uint64N(9))
			took, taken[name] = append(took, a), a
		}
		for name, a := range taken { // any one
			if r.IntN(2) == 0 {
				break
			}
			delete(taken, name)
			moved := a
			switch r.IntN(4) {
			case 0:
				withdrawn = append(withdrawn, a)
				continue
			case 1:
				moved.Labels.Task = pick("t", 8)
			case 2:
				moved.Result = pick("result", 4)
			case 3:
				moved.Time = fresh(0).Time
			}
			if !moved.Bucket().Equal(a.Bucket()) {
				withdrawn = append(withdrawn, a)
			}
			took = append(took, moved)
			taken[name] = moved
			break
		}
		return took, withdrawn
	}
	for i := range 40 {
		var charges, gone []usage.Charge
		for j := range r.IntN(6) {
			charges = append(charges, fresh(100*i+j))
		}
		for range r.IntN(3) { // derived anew: under other labels, or not at all
			if len(live) == 0 {
				break
			}
			at := r.IntN(len(live))
			if c := live[at]; r.IntN(2) == 0 {
				relabel(&c)
				charges = append(charges, c)
			} else {
				gone = append(gone, c)
			}
			live = slices.Delete(live, at, at+1)
		}
		live = append(live, charges...)
		took, withdrawn := someTurns(i)
		a := l.openAll(t, clickhouse.Derived{Charges: charges, GoneCharges: gone, Activity: took, GoneActivity: withdrawn})
		if r.IntN(4) == 0 {
			opened = append(opened, a)
		} else {
			l.complete(t, a)
		}
		switch r.IntN(10) {
		case 0:
			l.pass(time.Duration(r.Int64N(int64(3 * time.Hour))))
		case 1, 2:
			l.pass(time.Duration(r.Int64N(int64(10 * time.Minute))))
		case 3, 4:
			l.close(t)
		case 5:
			w, _ = newWatcher(t, l, nil)
		case 6, 7:
			for _, a := range opened {
				l.complete(t, a)
			}
			opened = nil
		}
		if r.IntN(3) > 0 {
			l.agrees(t, fmt.Sprint("step ", i), refresh(t, w))
		}
	}
	l.agrees(t, "in the end", refresh(t, w))
}

// compareOnce compares while the watcher refreshes.
func compareOnce(t *testing.T, w *Watcher, only []string) ([]string, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.note(ctx, w.refresh(ctx))
		}
	}()
	defer func() { stop(); <-done }()
	return w.compare(t.Context(), only)
}
