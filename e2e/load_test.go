package e2e

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/simulate"
)

// load pushes one fleet after the other and posts calls until it is told to
// finish, repeating whatever was not acknowledged.
type load struct {
	services []*service
	group    errgroup.Group
	ending   atomic.Bool
	pushed   atomic.Int64 // requests acknowledged
	posted   atomic.Int64 // batches acknowledged
	truth    truth
	calls    truth
	refused  map[int]int // pushes, by status
}

// startLoad begins a load that is different for every seed.
func startLoad(t *testing.T, seed uint64, services ...*service) *load {
	t.Helper()
	l := &load{services: services, truth: newTruth(), calls: newTruth(), refused: map[int]int{}}
	t.Cleanup(func() {
		l.ending.Store(true)
		_ = l.group.Wait()
	})
	l.group.Go(func() error { return l.push(t, seed) })
	l.group.Go(func() error { l.post(t, seed); return nil })
	return l
}

// fleetConfig is a fleet for services, as quick as they answer.
func fleetConfig(seed uint64, pods int, services ...*service) simulate.Config {
	cfg := simulate.DefaultConfig()
	cfg.Seed, cfg.Pods, cfg.Interval = seed, pods, time.Millisecond
	cfg.UntilAcknowledged, cfg.Patience = true, patience
	cfg.BackoffMin, cfg.BackoffMax = 20*time.Millisecond, 200*time.Millisecond
	cfg.Models = append(cfg.Models, "house-llm")
	cfg.PushURLs = nil
	for _, s := range services {
		cfg.PushURLs = append(cfg.PushURLs, s.pushURL())
	}
	return cfg
}

func (l *load) push(t *testing.T, seed uint64) error {
	for n := seed * 1000; !l.ending.Load(); n++ {
		cfg := fleetConfig(n, 24, l.services...)
		cfg.Concurrency = 8
		cfg.After = func(_ simulate.Request, o simulate.Outcome) {
			if o.Acknowledged() {
				l.pushed.Add(1)
			}
		}
		fleet, err := simulate.New(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		spent, report, err := fleet.Run(ctx)
		cancel()
		if err != nil || report.Unacknowledged > 0 {
			t.Errorf("fleet %d: %v: %+v", n, err, report)
			return err
		}
		l.truth.addFleet(spent)
		for status, times := range report.Rejected {
			l.refused[status] += times
		}
	}
	return nil
}

func (l *load) post(t *testing.T, seed uint64) {
	book, maker := prices(t), newCallMaker("load", seed)
	for i := 0; !l.ending.Load(); i++ {
		calls := maker.batch(40)
		post(t, calls, l.services...)
		if i%3 == 0 { // and again, as a client does that did not hear the answer
			post(t, calls, l.services[len(l.services)-1])
		}
		l.posted.Add(1)
		for i := range calls {
			l.calls.add(calls[i].key(), calls[i].sum(t, book))
		}
	}
}

// more waits until so many more pushes and batches of calls were acknowledged.
func (l *load) more(t *testing.T, pushes, batches int64) {
	t.Helper()
	pushes, batches = pushes+l.pushed.Load(), batches+l.posted.Load()
	until(t, "more is acknowledged", func() bool { return l.pushed.Load() >= pushes && l.posted.Load() >= batches })
}

// finish lets the fleet that is under way end, and returns what was spent.
func (l *load) finish(t *testing.T) truth {
	t.Helper()
	l.ending.Store(true)
	if err := l.group.Wait(); err != nil {
		t.Fatal(err)
	}
	maps.Copy(l.truth.spend, l.calls.spend) // the keys differ
	return l.truth
}
