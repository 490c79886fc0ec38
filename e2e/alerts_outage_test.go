package e2e

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/alerts/alertmanagertest"
)

const (
	pagerAway, soakPagerAway = 20 * time.Second, 5 * time.Minute
	// settled is longer than a group waits to be looked at again.
	settled = 12 * time.Second
)

// TestAlertmanagerAway: three Alertmanagers are away while one task crosses its
// ceiling and another ends: one crashes, one is stopped in order, and one is out
// of reach. None of it is lost.
func TestAlertmanagerAway(t *testing.T) {
	t.Parallel()
	alertmanagerAway(t, pagerAway)
}

func TestSoakAlertmanagerAway(t *testing.T) {
	soak(t)
	t.Parallel()
	alertmanagerAway(t, soakPagerAway)
}

func alertmanagerAway(t *testing.T, lasts time.Duration) {
	const ending, crossing = "T-1", "T-2"
	ceilings := ceilingsFile(t)
	type manager struct {
		*alertmanagertest.Server
		pager *pager
	}
	newManager := func() manager {
		p := newPager(t)
		return manager{routed(t, ceilings, p), p}
	}
	crashed, stopped, unreachable := newManager(), newManager(), newManager()
	all := []manager{crashed, stopped, unreachable}
	way := newProxy(t, unreachable.URL[len("http://"):])
	s := serve(t, "--ceilings", ceilings, "--task-pattern", `^(T-[0-9]+)-`,
		"--alertmanagers", crashed.URL+","+stopped.URL+",http://"+way.addr())
	s.faults = true
	services := []*service{s}
	runaway(t, services, "--pod-prefix", ending+"-a", "--usd", "1.1")
	for _, am := range all {
		am.pager.await(t, "firing", ending, 50)
	}

	crashed.Kill()
	stopped.Stop()
	way.setAway(true)
	back := time.Now().Add(lasts)
	runaway(t, services, "--pod-prefix", crossing+"-a", "--usd", "2.5")
	if _, err := s.client.EndTask(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	awaitTransitions(t, grafana(t, s.serving(t)["clickhouse"], s.dir), ending, fired("the task ended", "50"))
	until(t, "every Alertmanager was tried", func() bool {
		for _, receiver := range []string{crashed.URL, stopped.URL, "http://" + way.addr()} {
			if series(t, s, "tatara_ledger_alerts_delivery_failures_total", receiver[len("http://"):]) == 0 {
				return false
			}
		}
		return true
	})
	time.Sleep(time.Until(back))
	crashed.Restart()
	stopped.Restart()
	way.setAway(false)

	for _, am := range all {
		got := awaitFiring(t, am.Server, crossing, "50", "80", "100")
		for threshold, inhibited := range map[string]bool{"50": true, "80": true, "100": false} {
			until(t, "the highest alone is not inhibited", func() bool {
				return len(firing(am.Server, crossing)[threshold].Status.InhibitedBy) > 0 == inhibited
			})
			if got[threshold].StartsAt.After(back) {
				t.Errorf("%s fires since %v, and was crossed before %v", threshold, got[threshold].StartsAt, back)
			}
		}
		awaitFiring(t, am.Server, ending)
		am.pager.await(t, "firing", crossing, 100)
	}
	stopped.pager.await(t, "resolved", ending, 50)
	unreachable.pager.await(t, "resolved", ending, 50)
	time.Sleep(settled)
	want := both(ending, 50)
	want[page{"firing", costCeiling, crossing, "100"}] = 1
	stopped.pager.wasButFor(t, want, crossing)
	unreachable.pager.wasButFor(t, want, crossing)
	// It has lost whom it told of what: of an alert that it does not know, an
	// Alertmanager does not tell the end.
	delete(want, page{"resolved", costCeiling, ending, "50"})
	crashed.pager.wasButFor(t, want, crossing)
	if n := s.metric(t, "tatara_ledger_alerts_dropped_total"); n > 0 {
		t.Errorf("%v alerts were dropped", n)
	}
	s.stop(t)
}

// wasButFor is was, but that thresholds of a task below the highest may have
// arrived too, once each: Alertmanager does not wait with what began while it was
// away, and may look at them before it has looked at what inhibits them.
func (p *pager) wasButFor(t *testing.T, want map[page]int, task string) {
	t.Helper()
	want = maps.Clone(want)
	got := p.pages()
	for _, threshold := range []string{"50", "80"} {
		if early := (page{"firing", costCeiling, task, threshold}); got[early] > 0 {
			want[early] = 1
		}
	}
	p.was(t, want)
}

// TestClickHouseAwayAlerts: while the ledger cannot be read, nothing is judged
// and nothing resolves; what fires is sent again. What arrived meanwhile is
// judged afterwards.
func TestClickHouseAwayAlerts(t *testing.T) {
	t.Parallel()
	ceilings, p := ceilingsFile(t), newPager(t)
	am := routed(t, ceilings, p)
	e := startEngines(t)
	way := newProxy(t, e.clickHouse)
	s := e.serve(t, way.addr(), "--ceilings", ceilings, "--alertmanagers", am.URL, "--task-pattern", `^(T-[0-9]+)-`)
	s.faults = true
	services := []*service{s}
	runaway(t, services, "--pod-prefix", "T-1-a", "--usd", "1.1")
	p.await(t, "firing", "T-1", 50)

	way.setAway(true)
	spent := runaway(t, services, "--pod-prefix", "T-2-a", "--usd", "2.5")
	for _, path := range []string{"/v1/tasks", "/v1/tasks/T-1"} {
		until(t, path+" is refused", func() bool {
			got := send(t.Context(), http.MethodGet, "http://"+s.api+path, nil)
			return got.status == http.StatusServiceUnavailable && got.retryAfter != ""
		})
	}
	const evaluations = "tatara_ledger_alerts_evaluated_timestamp_seconds"
	until(t, "the evaluator is blind", func() bool {
		return series(t, s, "tatara_ledger_alerts_evaluation_failures_total", `store="clickhouse"`) > 0
	})
	evaluated, blind := s.metric(t, evaluations), time.Now()
	until(t, "what fires is sent again", func() bool { return firing(am, "T-1")["50"].UpdatedAt.After(blind) })
	if now := s.metric(t, evaluations); now != evaluated {
		t.Errorf("ceilings were evaluated %v s later", now-evaluated)
	}
	awaitFiring(t, am, "T-1", "50")
	awaitFiring(t, am, "T-2")

	way.setAway(false)
	awaitFiring(t, am, "T-2", "50", "80", "100")
	p.await(t, "firing", "T-2", 100)
	awaitTask(t, s, "T-2", spent)
	awaitFiring(t, am, "T-1", "50")
	if now := s.metric(t, evaluations); now <= evaluated {
		t.Errorf("ceilings were evaluated last at %v, and at %v before ClickHouse was back", now, evaluated)
	}
	p.was(t, map[page]int{
		{"firing", costCeiling, "T-1", "50"}:  1,
		{"firing", costCeiling, "T-2", "100"}: 1,
	})
	s.stop(t)
}
