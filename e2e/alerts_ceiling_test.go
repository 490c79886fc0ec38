package e2e

import (
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// TestCeilingRaised: a ceiling that is raised or lifted for a task resolves what
// it raised, and one that is lowered raises.
func TestCeilingRaised(t *testing.T) {
	t.Parallel()
	const raised, exempt, lowered = "T-1", "T-2", "T-3"
	ceilings, p := ceilingsFile(t), newPager(t)
	am := routed(t, ceilings, p)
	s := serve(t, "--ceilings", ceilings, "--alertmanagers", am.URL, "--task-pattern", `^(T-[0-9]+)-`)
	s.faults = true // on a busy machine, figures may be older than an answer may be
	services := []*service{s}
	for task, usd := range map[string]string{raised: "2.5", exempt: "2.5", lowered: "0.5"} {
		spent := runaway(t, services, "--pod-prefix", task+"-a", "--usd", usd)
		awaitTask(t, s, task, spent)
	}
	for _, task := range []string{raised, exempt} {
		awaitFiring(t, am, task, "50", "80", "100")
		p.await(t, "firing", task, 100)
	}
	awaitFiring(t, am, lowered)

	usd := func(s string) *wire.Dollars { d := wire.Dollars(s); return &d }
	for task, set := range map[string]wire.CeilingWrite{
		raised: {USD: usd("3")}, exempt: {Exempt: true}, lowered: {USD: usd("0.6")},
	} {
		if _, err := s.client.SetCeiling(t.Context(), task, set); err != nil {
			t.Fatal(err)
		}
	}
	awaitFiring(t, am, raised, "50", "80") // of 3 dollars it has spent 83 %
	awaitFiring(t, am, exempt)
	awaitFiring(t, am, lowered, "50", "80")
	if _, err := s.client.SetCeiling(t.Context(), raised, wire.CeilingWrite{USD: usd("10")}); err != nil {
		t.Fatal(err)
	}
	awaitFiring(t, am, raised)

	for _, task := range []string{raised, exempt} {
		p.await(t, "resolved", task, 100)
	}
	p.await(t, "firing", lowered, 80)
	const because = "the ceiling was raised or lifted"
	ledger := grafana(t, s.serving(t)["clickhouse"], s.dir)
	awaitTransitions(t, ledger, raised, fired(because, "50", "80", "100"))
	awaitTransitions(t, ledger, exempt, fired(because, "50", "80", "100"))
	awaitTransitions(t, ledger, lowered, fired("", "50", "80"))
	for task, state := range map[string]string{raised: "ok", exempt: "ok", lowered: "warn"} {
		until(t, task+" is "+state, func() bool {
			got, err := s.client.Task(t.Context(), task)
			return err == nil && got.State == state && got.Ceiling.Exempt == (task == exempt)
		})
	}
	time.Sleep(settled)
	for page, n := range p.pages() {
		if n > 1 {
			t.Errorf("%+v arrived %d times", page, n)
		}
	}
	awaitFiring(t, am, raised)
	awaitFiring(t, am, exempt)
	s.stop(t)
}
