package tasks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// run runs a watcher that hurries.
func run(t *testing.T, w *Watcher) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// await waits for a snapshot that has what ok wants.
func await(t *testing.T, w *Watcher, ok func(*Snapshot) bool) *Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for s := w.Snapshot(); ; {
		if s != nil && ok(s) {
			return s
		}
		var err error
		if s, err = w.Next(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, _ := newWatcher(t, l, func(c *Config) { c.Every = 5 * time.Millisecond })
	if _, found, err := w.Lookup(t.Context(), "a"); found || err != nil {
		t.Errorf("before the first snapshot: found %v, error %v", found, err)
	}
	l.write(t, one(charge("1", "a", at(0), 1, usage.Labels{})), nil)
	if got, found, err := w.Lookup(t.Context(), "a"); !found || err != nil || got.Hour.Cost != usage.Some(1) {
		t.Errorf("before the first snapshot: %+v, found %v, error %v", got, found, err)
	}
	run(t, w)
	s := await(t, w, func(s *Snapshot) bool { return s.Len() == 1 })
	if !s.At().Equal(noon) || s.Age() < 0 || s.Age() > time.Since(w.started) {
		t.Errorf("at %v, age %v", s.At(), s.Age())
	}
	l.write(t, one(charge("2", "a", at(0), 2, usage.Labels{})), nil)
	await(t, w, func(s *Snapshot) bool { x, _ := s.Task("a"); return x.Total.Cost == usage.Some(3) })
	l.turn(t, []usage.Activity{turns("3", "a", "error", at(time.Second), 1)}, nil)
	await(t, w, func(s *Snapshot) bool { x, _ := s.Task("a"); return x.Turns.LastResult == "error" })
	if n := testutil.ToFloat64(w.metrics.tasks); n != 1 {
		t.Errorf("%v tasks in the metric", n)
	}
	if n := testutil.ToFloat64(w.metrics.timestamp); n != float64(noon.Unix()) {
		t.Errorf("timestamp %v in the metric, want %d", n, noon.Unix())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := &Snapshot{replaced: make(chan struct{})}
	if _, err := w.Next(ctx, never); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting: error %v", err)
	}
}

// Whatever comes without a mark, which no writer does, is found and repaired.
func TestDifferencesAreRepaired(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, log := newWatcher(t, l, func(c *Config) { c.Every, c.Reconcile = 5*time.Millisecond, 10*time.Millisecond })
	first := charge("1", "a", at(0), 1, usage.Labels{})
	l.write(t, []usage.Charge{first, charge("2", "b", at(0), 1, usage.Labels{}), charge("5", "d", at(0), 1, usage.Labels{})}, nil)
	l.turn(t, []usage.Activity{turns("1", "d", "ok", at(0), 1), turns("2", "only turns", "ok", at(0), 1)}, nil)
	run(t, w)
	await(t, w, func(*Snapshot) bool { return testutil.ToFloat64(w.metrics.reconciled.WithLabelValues(equal)) > 0 })
	if n := testutil.ToFloat64(w.metrics.differences); n != 0 {
		t.Fatalf("%v differences without one", n)
	}
	// One more, one less, and a new task, in a bucket that is read from the
	// charges.
	d := derived(t, l, charge("3", "b", at(0), 1, usage.Labels{}), charge("4", "c", at(0), 1, usage.Labels{}))
	d.GoneCharges = one(first)
	if err := l.AppendDerived(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	s := await(t, w, func(s *Snapshot) bool {
		_, a := s.Task("a")
		_, c := s.Task("c")
		return !a && c
	})
	l.agrees(t, "repaired", s)
	await(t, w, func(*Snapshot) bool { return testutil.ToFloat64(w.metrics.reconciled.WithLabelValues(equal)) > 1 })
	if n := testutil.ToFloat64(w.metrics.differences); n != 3 {
		t.Errorf("%v differences counted, want 3", n)
	}
	if n := testutil.ToFloat64(w.metrics.rebuilds.WithLabelValues(difference)); n != 1 || log.lines("ERROR") != 1 {
		t.Errorf("%v repairs, %d logged; want 1", n, log.lines("ERROR"))
	}
	// A turn that ended otherwise.
	d = derived(t, l)
	d.Activity = []usage.Activity{turns("1", "d", "failed", at(0), 1)}
	if err := l.AppendDerived(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	s = await(t, w, func(s *Snapshot) bool { x, _ := s.Task("d"); return x.Turns.LastResult == "failed" })
	l.agrees(t, "turns repaired", s)
	if n := testutil.ToFloat64(w.metrics.differences); n != 4 {
		t.Errorf("%v differences counted, want 4", n)
	}
}

// mute answers no question for totals.
type mute struct{ *ledger }

func (mute) TaskTotals(context.Context, []string, func(*clickhouse.TaskTotal)) error {
	return errInjected
}

func TestComparingFails(t *testing.T) {
	t.Parallel()
	w, _ := newWatcher(t, mute{newLedger(t)}, func(c *Config) { c.Every, c.Reconcile = 5*time.Millisecond, 10*time.Millisecond })
	run(t, w)
	await(t, w, func(*Snapshot) bool { return testutil.ToFloat64(w.metrics.reconciled.WithLabelValues(failed)) > 0 })
}
