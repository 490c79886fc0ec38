package e2e

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/szymonrychu/tatara-ledger/simulate"
)

// runFleet runs a fleet and calls halfway once half of its requests are
// acknowledged; if unheard, while no request is under way.
func runFleet(t *testing.T, cfg simulate.Config, unheard bool, halfway func()) truth {
	t.Helper()
	var (
		acked atomic.Int64
		gate  sync.RWMutex
	)
	cfg.Before = func(context.Context, simulate.Request) { gate.RLock() }
	cfg.After = func(_ simulate.Request, o simulate.Outcome) {
		gate.RUnlock()
		if o.Acknowledged() {
			acked.Add(1)
		}
	}
	fleet, err := simulate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		truth  simulate.Truth
		report simulate.Report
		err    error
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan result, 1)
	go func() {
		truth, report, err := fleet.Run(ctx)
		done <- result{truth, report, err}
	}()
	until(t, "half of the fleet is acknowledged", func() bool { return int(acked.Load()) > fleet.Requests()/2 })
	if unheard {
		gate.Lock()
	}
	halfway()
	if unheard {
		gate.Unlock()
	}
	r := <-done
	if r.err != nil || r.report.Unacknowledged > 0 {
		t.Fatalf("%v: %+v", r.err, r.report)
	}
	t.Logf("%+v", r.report)
	want := newTruth()
	want.addFleet(r.truth)
	return want
}

// fleetOf is a fleet of 500 pods. So many at once share the journal's fsyncs.
func fleetOf(seed uint64, services ...*service) simulate.Config {
	cfg := fleetConfig(seed, 500, services...)
	cfg.Concurrency = 64
	return cfg
}

// TestFleet: 500 pods push to one service that is stopped and started halfway,
// every request twice. Pushes are lost meanwhile, and copies of some of them
// come after their successors.
func TestFleet(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cfg := fleetOf(11, s)
	cfg.Duplicate = true
	want := runFleet(t, cfg, false, func() {
		s.stop(t)
		s.start(t)
	})
	want.check(t, s)
	want.checkActivity(t, grafana(t, s.serving(t)["clickhouse"], s.dir))
	s.stop(t)
}

// TestFleetOverTwoServices: 500 pods, every request sent twice, in a random
// order, in turn to two services over one pair of engines, one of which is
// stopped and started halfway. No push is lost meanwhile: one whose copy comes
// after its successors could not always be told from a new process.
func TestFleetOverTwoServices(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	a, b := e.serve(t, e.clickHouse), e.serve(t, e.clickHouse)
	cfg := fleetOf(12, a, b)
	cfg.Duplicate, cfg.Shuffle = true, true
	want := runFleet(t, cfg, true, func() {
		b.stop(t)
		b.start(t)
	})
	want.check(t, a, b)
	want.checkActivity(t, grafana(t, e.clickHouse, e.dir))

	// The first pods once more, byte for byte, change nothing.
	cfg.Pods, cfg.Shuffle = 50, false
	again := runFleet(t, cfg, false, func() {})
	for k, v := range again.spend {
		if v != want.spend[k] {
			t.Fatalf("the same pod spent something else: %+v: %+v, then %+v", k, want.spend[k], v)
		}
	}
	want.check(t, a, b)
	a.stop(t)
	b.stop(t)
	stop(t, e.process)
	if left := users(t, e.dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
