package e2e

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/alerts/alertmanagertest"
	"github.com/szymonrychu/tatara-ledger/simulate"
)

// TestARunawayTask: two services see one task run away, over several pods and
// two kinds, of which one service is killed twice. Each threshold is one alert
// and pages once when it is crossed and once when the task ends.
func TestARunawayTask(t *testing.T) {
	t.Parallel()
	const task = "T-7"
	ceilings, p := ceilingsFile(t), newPager(t)
	am := routed(t, ceilings, p)
	e := startEngines(t)
	args := []string{
		"--ceilings", ceilings, "--alertmanagers", am.URL, "--task-pattern", `^(T-[0-9]+)-`,
		"--dashboards", "https://grafana.example.org", "--runbooks", "https://runbooks.example.org",
	}
	a, b := e.newService(t, e.clickHouse, args...), e.newService(t, e.clickHouse, args...)
	a.faults, b.faults = true, true
	startTogether(t, a, b)
	services := []*service{a, b}

	var spent simulate.Sum
	total := map[int]simulate.Sum{} // at the crossing of each threshold
	crosses := func(threshold int, args ...string) {
		t.Helper()
		spent.Add(runaway(t, services, args...))
		total[threshold] = spent
		for _, s := range services {
			awaitTask(t, s, task, spent)
		}
		p.await(t, "firing", task, threshold)
	}
	// Its pods are linked to the task; of the later ones the name says it.
	crosses(50, "--url", "http://"+b.api, "--task", task, "--pod-prefix", "a-pod", "--usd", "1.1", "--pushes", "6")
	awaitBudget(t, a, task, "at half of its ceiling nothing is said", func(got budgetAnswer) bool { return got == budgetAnswer{} })
	crosses(80, "--pod-prefix", "T-7-b", "--usd", "0.6", "--pods", "2", "--pushes", "3", "--kind", "review")
	awaitBudget(t, b, task, "over 80 % of its ceiling it is warned", func(got budgetAnswer) bool {
		return got.Specific.Decision == "" && strings.Contains(got.Message, "$1.70 of $2.00")
	})
	b.kill(t)
	b.start(t)
	crosses(100, "--pod-prefix", "T-7-c", "--usd", "0.5", "--pods", "1", "--pushes", "2", "--kind", "review")

	got := awaitFiring(t, am, task, "50", "80", "100")
	for threshold, sum := range total {
		checkAlert(t, got[strconv.Itoa(threshold)], threshold, sum)
	}
	a.kill(t)
	a.start(t)
	for _, s := range services {
		now := awaitTask(t, s, task, spent)
		if now.State != "exceeded" || now.Runs != 6 || now.Kind != "review" {
			t.Errorf("%+v", now)
		}
		awaitBudget(t, s, task, "over its ceiling it is stopped", func(got budgetAnswer) bool {
			return got.Specific.Decision == "deny" && strings.Contains(got.Specific.DecisionReason, "$2.20 of $2.00")
		})
	}
	before := p.pages()
	if len(before) != 3 {
		t.Errorf("before the end: %v", before)
	}

	if _, err := b.client.EndTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	for threshold := range total {
		p.await(t, "resolved", task, threshold)
	}
	awaitFiring(t, am, task)
	awaitTransitions(t, grafana(t, e.clickHouse, e.dir), task, fired("the task ended", "50", "80", "100"))
	// Long enough for two groups to be looked at, and an alert to be sent again.
	time.Sleep(20 * time.Second)
	p.was(t, both(task, 50, 80, 100))
	awaitFiring(t, am, task)
	a.stop(t)
	b.stop(t)
}

// checkAlert compares an alert as Alertmanager has it with what the task had
// spent when it began to fire.
func checkAlert(t *testing.T, a alertmanagertest.Alert, threshold int, spent simulate.Sum) {
	t.Helper()
	want := map[string]string{
		"alertname": costCeiling, "severity": "warning", "system": "tatara", "component": "tasks", "project": "demo", "repo": "widgets",
		"kind": "implement", // as it was at the first crossing
		"task": "T-7", "threshold": strconv.Itoa(threshold),
	}
	if threshold == 100 {
		want["severity"] = "critical"
	}
	if diff := cmp.Diff(want, a.Labels); diff != "" {
		t.Errorf("labels at %d (-want +got):\n%s", threshold, diff)
	}
	cost := "$" + spent.Cost.String()
	summary := "Task T-7 reached " + want["threshold"] + " % of its cost ceiling: " + cost + " of $2"
	if a.Annotations["summary"] != summary {
		t.Errorf("at %d: %q, want %q", threshold, a.Annotations["summary"], summary)
	}
	for _, part := range []string{
		"ceilings.yaml:3.", "Cost " + cost + ", $", " per hour; tokens " + strconv.FormatUint(spent.Tokens(), 10) + ",",
		"of them output " + strconv.FormatUint(spent.Output, 10) + ";", "Top model: claude-opus-4-8 (" + cost + ").",
	} {
		if !strings.Contains(a.Annotations["description"], part) {
			t.Errorf("at %d: no %q in %q", threshold, part, a.Annotations["description"])
		}
	}
	if a.Annotations["runbook_url"] != "https://runbooks.example.org/"+costCeiling+".md" ||
		!strings.HasPrefix(a.Annotations["dashboard_url"], "https://grafana.example.org/d/") ||
		!strings.HasSuffix(a.Annotations["dashboard_url"], "?var-task=T-7") {
		t.Errorf("at %d: %v", threshold, a.Annotations)
	}
}

// budgetAnswer is what the hook says.
type budgetAnswer struct {
	Message  string `json:"systemMessage"`
	Specific struct {
		Decision       string `json:"permissionDecision"`
		DecisionReason string `json:"permissionDecisionReason"`
	} `json:"hookSpecificOutput"`
}

// awaitBudget asks until the hook says what it should: a ledger of a busy machine
// may not know how a task stands, and then the answer is that.
func awaitBudget(t *testing.T, s *service, task, what string, ok func(budgetAnswer) bool) {
	t.Helper()
	var last budgetAnswer
	defer func() {
		if t.Failed() {
			t.Logf("the hook said last: %+v", last)
		}
	}()
	until(t, what, func() bool {
		last = askBudget(t, s, task)
		return ok(last)
	})
}

// askBudget asks as an agent's hook does, which knows its task alone.
func askBudget(t *testing.T, s *service, task string) (a budgetAnswer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), suite.binary, "hook", "budget", "--enforce", "--fail", "closed", "--timeout", "20s")
	cmd.Env = append(environment(), "TATARA_TASK="+task, "TATARA_LEDGER_URL=http://"+s.api)
	cmd.Stdin = strings.NewReader(`{"session_id":"e2e","hook_event_name":"PreToolUse","tool_name":"Bash"}`)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the hook: %v", err)
	}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &a); err != nil {
			t.Fatalf("the hook says %q: %v", out, err)
		}
	}
	return a
}
