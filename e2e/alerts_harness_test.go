package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/alerts/alertmanagertest"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/simulate"
)

// limitedTasks are ceilings of two dollars for a task and nothing else, so that
// dollars alone decide what fires.
const limitedTasks = `thresholds: [50, 80, 100]
default:
  task: {usd: 2, tokens: none, output_tokens: none, runs: none}
  hour: {usd: none, tokens: none, output_tokens: none, runs: none}
  session: {subagents: none}
`

// costCeiling is the alertname of the one ceiling that [limitedTasks] has.
const costCeiling = "TaskCostCeiling"

func ceilingsFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ceilings.yaml")
	if err := os.WriteFile(path, []byte(limitedTasks), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pager is who an Alertmanager notifies.
type pager struct {
	url string
	mu  sync.Mutex
	got []page
}

// page is one alert of a notification.
type page struct{ Status, Alert, Task, Threshold string }

func newPager(t *testing.T) *pager {
	t.Helper()
	p := &pager{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Alerts []struct {
				Status string
				Labels map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("a notification: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, a := range m.Alerts {
			p.got = append(p.got, page{a.Status, a.Labels["alertname"], a.Labels["task"], a.Labels["threshold"]})
		}
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// pages are the notifications so far, each with how often it came.
func (p *pager) pages() map[page]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[page]int{}
	for _, g := range p.got {
		out[g]++
	}
	return out
}

// await waits for a notification.
func (p *pager) await(t *testing.T, status, task string, threshold int) {
	t.Helper()
	want := page{status, costCeiling, task, strconv.Itoa(threshold)}
	until(t, status+" "+task+" at "+want.Threshold+" arrives", func() bool { return p.pages()[want] > 0 })
}

// was checks what arrived in all.
func (p *pager) was(t *testing.T, want map[page]int) {
	t.Helper()
	if diff := cmp.Diff(want, p.pages()); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
}

// both are one firing and one resolved notification for each of thresholds.
func both(task string, thresholds ...int) map[page]int {
	out := map[page]int{}
	for _, n := range thresholds {
		for _, status := range []string{"firing", "resolved"} {
			out[page{status, costCeiling, task, strconv.Itoa(n)}] = 1
		}
	}
	return out
}

// routed starts an Alertmanager under the shipped routing, whose receiver is the
// pager.
func routed(t *testing.T, ceilings string, p *pager) *alertmanagertest.Server {
	t.Helper()
	dir := t.TempDir()
	if got := command(t, "alerts", "render", "--out", dir, "--ceilings", ceilings); got.code != 0 {
		t.Fatalf("rendering the routing: %+v", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "alertmanager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const placeholder = "http://127.0.0.1:9095/alerts"
	if n := strings.Count(string(text), placeholder); n != 1 {
		t.Fatalf("%d receivers in the routing:\n%s", n, text)
	}
	return alertmanagertest.Start(t, strings.Replace(string(text), placeholder, p.url, 1))
}

// firing are the alerts of a task that an Alertmanager has, by threshold.
func firing(am *alertmanagertest.Server, task string) map[string]alertmanagertest.Alert {
	out := map[string]alertmanagertest.Alert{}
	for _, a := range am.Alerts() {
		if a.Labels["task"] == task {
			// A second one under the threshold would be one of other labels.
			key := a.Labels["threshold"]
			for _, twice := out[key]; twice; _, twice = out[key] {
				key += " again"
			}
			out[key] = a
		}
	}
	return out
}

// awaitFiring waits until exactly these thresholds of a task fire.
func awaitFiring(t *testing.T, am *alertmanagertest.Server, task string, thresholds ...string) map[string]alertmanagertest.Alert {
	t.Helper()
	var got map[string]alertmanagertest.Alert
	until(t, "exactly "+strings.Join(thresholds, ", ")+" of "+task+" fire", func() bool {
		got = firing(am, task)
		for _, want := range thresholds {
			if _, ok := got[want]; !ok {
				return false
			}
		}
		return len(got) == len(thresholds)
	})
	return got
}

// runaway runs the command and returns what the task spent in it. The pushes
// go round the services.
func runaway(t *testing.T, services []*service, args ...string) simulate.Sum {
	t.Helper()
	args = append([]string{"simulate", "runaway", "--format", "json", "--until-acknowledged", "--interval", "1ms"}, args...)
	for _, s := range services {
		args = append(args, "--push-url", s.pushURL())
	}
	got := command(t, args...)
	var out struct{ Total simulate.Sum }
	if err := json.Unmarshal([]byte(got.stdout), &out); err != nil || got.code != 0 {
		t.Fatalf("running a task away: %v, %+v", err, got)
	}
	return out.Total
}

// awaitTask waits until a service says that a task has spent so much, and
// returns its answer.
func awaitTask(t *testing.T, s *service, task string, want simulate.Sum) *wire.Task {
	t.Helper()
	var got *wire.Task
	until(t, task+" costs $"+want.Cost.String(), func() bool {
		found, err := s.client.Task(t.Context(), task)
		got = found
		return err == nil && found.CostUSD != nil && *found.CostUSD == want.Cost.String()
	})
	if got.Tokens != want.Tokens() || got.OutputTokens != want.Output {
		t.Errorf("%s has %d tokens, of them output %d; want %+v", task, got.Tokens, got.OutputTokens, want)
	}
	return got
}

// transitions are what the ledger has of a task's alerts: "threshold state
// reason", each with how often it happened.
func transitions(t *testing.T, ch clickHouse, task string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for line := range strings.Lines(ch.must(t, "SELECT toString(threshold), state, reason FROM alerts WHERE task = '"+task+"'")) {
		out[strings.Join(strings.Fields(line), " ")]++
	}
	return out
}

// awaitTransitions waits until the ledger has them.
func awaitTransitions(t *testing.T, ch clickHouse, task string, want map[string]int) {
	t.Helper()
	until(t, "the ledger has the alerts of "+task, func() bool {
		n := 0
		for _, times := range transitions(t, ch, task) {
			n += times
		}
		return n >= len(want)
	})
	if diff := cmp.Diff(want, transitions(t, ch, task)); diff != "" {
		t.Errorf("alerts of %s in the ledger (-want +got):\n%s", task, diff)
	}
}

// fired are transitions of thresholds that fired and were resolved for a reason.
func fired(reason string, thresholds ...string) map[string]int {
	out := map[string]int{}
	for _, n := range thresholds {
		out[n+" firing"] = 1
		if reason != "" {
			out[n+" resolved "+reason] = 1
		}
	}
	return out
}
