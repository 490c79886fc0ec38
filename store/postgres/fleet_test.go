package postgres

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/szymonrychu/tatara-ledger/store"
)

func fleetSession(t *testing.T, s *Store, silence time.Duration) *FleetSession {
	t.Helper()
	f, err := s.OpenFleetSession(t.Context(), silence)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // some are cut by their test
	return f
}

func lead(t *testing.T, f *FleetSession) int64 {
	t.Helper()
	var epoch int64
	eventually(t, "the lock is taken", func() bool {
		e, ok, err := f.Lead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		epoch = e
		return ok
	})
	return epoch
}

var (
	fleetInput = store.FleetKey{Amount: store.FleetInput, FleetLabels: store.FleetLabels{Project: "p", Repo: "r", Kind: "k", Model: "m"}}
	fleetCost  = store.FleetKey{Amount: store.FleetCost, FleetLabels: store.FleetLabels{Project: "p", Repo: "r", Kind: "k"}}
)

// raised adds to counters the way the holder does.
func raised(t *testing.T, s *Store, epoch int64, rises ...store.FleetIncrease) {
	t.Helper()
	err := s.CountFleet(t.Context(), epoch, nil, func(map[string]store.FleetRun) ([]store.FleetRun, []store.FleetIncrease) { return nil, rises })
	if err != nil {
		t.Fatal(err)
	}
}

func shown(t *testing.T, s *Store, epoch int64, rise bool) map[store.FleetKey]int64 {
	t.Helper()
	series, err := s.ShowFleet(t.Context(), epoch, rise)
	if err != nil {
		t.Fatal(err)
	}
	out := map[store.FleetKey]int64{}
	for _, row := range series {
		out[row.FleetKey] = row.Value
	}
	return out
}

func by(k store.FleetKey, n, past int64) store.FleetIncrease {
	return store.FleetIncrease{FleetSeries: store.FleetSeries{FleetKey: k, Value: n}, Past: past}
}

// prometheus#3886: what a counter is born with is no increase, so it is born 0.
func TestACounterIsShownAsZeroFirst(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	epoch := lead(t, fleetSession(t, s, time.Minute))
	raised(t, s, epoch, by(fleetInput, 5000, 0))
	raised(t, s, epoch, by(fleetInput, 1, 0), by(fleetCost, 300, 200))
	for i, want := range []map[store.FleetKey]int64{{fleetInput: 0, fleetCost: 200}, {fleetInput: 5001, fleetCost: 300}} {
		if diff := cmp.Diff(want, shown(t, s, epoch, i > 0)); diff != "" {
			t.Errorf("scrape %d:\n%s", i, diff)
		}
	}
	raised(t, s, epoch, by(fleetInput, 10, 0))
	// The next holder goes on where the last one was seen.
	if diff := cmp.Diff(map[store.FleetKey]int64{fleetInput: 5001, fleetCost: 300}, shown(t, s, epoch, false)); diff != "" {
		t.Error(diff)
	}
	raised(t, s, epoch, by(fleetInput, math.MaxInt64, 0))
	if got := shown(t, s, epoch, true)[fleetInput]; got != math.MaxInt64 {
		t.Errorf("a counter over its end is %d", got)
	}
}

// A holder whose session was cut may not know it. It can write nothing once
// there is another.
func TestAFormerHolderCannotWrite(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first, second := fleetSession(t, s, time.Minute), fleetSession(t, s, time.Minute)
	old := lead(t, first)
	if _, ok, err := second.Lead(t.Context()); ok || err != nil {
		t.Fatalf("two hold the lock: %v, error %v", ok, err)
	}
	raised(t, s, old, by(fleetInput, 7, 0))
	execute(t, s, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1`, first.conn.PgConn().PID())
	epoch := lead(t, second)
	if err := first.Ping(t.Context()); err == nil {
		t.Error("a session that was cut answers")
	}
	run := store.FleetRun{Run: "run", LastCharge: time.Now()}
	err := s.CountFleet(t.Context(), old, nil, func(map[string]store.FleetRun) ([]store.FleetRun, []store.FleetIncrease) {
		t.Error("it counts")
		return []store.FleetRun{run}, []store.FleetIncrease{by(fleetInput, 1, 0)}
	})
	if !errors.Is(err, store.ErrNotHolder) {
		t.Errorf("counting: %v", err)
	}
	if _, err := s.ShowFleet(t.Context(), old, true); !errors.Is(err, store.ErrNotHolder) {
		t.Errorf("showing: %v", err)
	}
	if err := s.SetFleetWatermark(t.Context(), old, 9, time.Now()); !errors.Is(err, store.ErrNotHolder) {
		t.Errorf("moving the watermark: %v", err)
	}
	if mark, err := s.FleetWatermark(t.Context()); mark != 0 || err != nil {
		t.Errorf("the watermark is %d, error %v", mark, err)
	}
	shown(t, s, epoch, false)
	if got := shown(t, s, epoch, true)[fleetInput]; got != 7 {
		t.Errorf("the counter is %d; want 7", got)
	}
}

// A machine that vanished or stands still sends no goodbye.
func TestASilentHolderLosesTheLock(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	lead(t, fleetSession(t, s, 300*time.Millisecond))
	lead(t, fleetSession(t, s, time.Minute))
}

// A process that stands still in the middle of a transaction does not lock the
// next holder out, and what it was about to write is not written.
func TestAHolderThatStandsStill(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first, second := fleetSession(t, s, time.Minute), fleetSession(t, s, time.Minute)
	old := lead(t, first)
	var epoch int64
	err := s.CountFleet(t.Context(), old, nil, func(map[string]store.FleetRun) ([]store.FleetRun, []store.FleetIncrease) {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		epoch = lead(t, second)
		return nil, []store.FleetIncrease{by(fleetInput, 1, 0)}
	})
	if err == nil {
		t.Error("it wrote")
	}
	if got := shown(t, s, epoch, true); len(got) > 0 {
		t.Errorf("it wrote %v", got)
	}
}

func TestWhatWasCountedIsRemembered(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	epoch := lead(t, fleetSession(t, s, time.Minute))
	now := time.Now().UTC().Truncate(time.Millisecond)
	run := func(name string, age time.Duration, n int64) store.FleetRun {
		return store.FleetRun{
			Run: name, High: store.FleetAmounts{n, 0, 0, 0, math.MaxInt64}, LastCharge: now.Add(-age),
			Parts: map[store.FleetLabels]store.FleetAmounts{fleetInput.FleetLabels: {n}, {Kind: "\u00fc\"\\"}: {0, 1, 2, 3, math.MaxInt64}},
		}
	}
	for _, runs := range [][]store.FleetRun{{run("old", time.Hour, 1), run("new", time.Minute, 1)}, {run("new", time.Minute, 2)}} {
		err := s.CountFleet(t.Context(), epoch, nil, func(map[string]store.FleetRun) ([]store.FleetRun, []store.FleetIncrease) { return runs, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	known := func() (out map[string]store.FleetRun) {
		err := s.CountFleet(t.Context(), epoch, []string{"old", "new", "none"}, func(k map[string]store.FleetRun) ([]store.FleetRun, []store.FleetIncrease) {
			out = k
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := map[string]store.FleetRun{"old": run("old", time.Hour, 1), "new": run("new", time.Minute, 2)}
	if diff := cmp.Diff(want, known(), cmpopts.EquateApproxTime(0)); diff != "" {
		t.Error(diff)
	}
	for _, mark := range []uint64{9, 5} { // it never goes back
		if err := s.SetFleetWatermark(t.Context(), epoch, mark, now.Add(-30*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if mark, err := s.FleetWatermark(t.Context()); mark != 9 || err != nil {
		t.Errorf("the watermark is %d, error %v", mark, err)
	}
	delete(want, "old")
	if diff := cmp.Diff(want, known(), cmpopts.EquateApproxTime(0)); diff != "" {
		t.Error(diff)
	}
}
