package evaluate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

var noon = time.Date(2026, 12, 1, 12, 2, 0, 0, time.UTC)

func ceilings(t *testing.T, yaml string) *ceiling.Config {
	t.Helper()
	c, err := ceiling.Load("test.yaml", strings.NewReader(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const limits = `
quiet: 2h
default:
  task: {usd: 10, tokens: 1000, output_tokens: none, runs: none}
  hour: {usd: 4, tokens: none, output_tokens: none, runs: none}
  session: {subagents: 5}
`

// spent is a task with spend in the current bucket.
func spent(change func(*tasks.Task)) tasks.Task {
	t := tasks.Task{Name: "t", Project: "p", Repo: "r", Kind: "implement", FirstSpend: noon.Add(-time.Hour), LastSpend: noon.Add(3 * time.Minute)}
	change(&t)
	return t
}

func dollars(n float64) usage.NullNano { return usage.Some(usage.Nano(n * 1e9)) }

func fires(alert string, threshold int, limit int64) store.Alert {
	return store.Alert{
		AlertID: store.AlertID{Task: "t", Alert: alert, Threshold: threshold},
		State:   store.Firing, Episode: 3, Limit: limit,
	}
}

// told is what changes say, briefly.
func told(changes []store.AlertChange) (out []string) {
	for _, c := range changes {
		s := fmt.Sprintf("%s %s", c.Alert.Alert, c.State)
		if c.Threshold > 0 {
			s = fmt.Sprintf("%s %d %s", c.Alert.Alert, c.Threshold, c.State)
		}
		if c.Reason != "" {
			s += ": " + c.Reason
		}
		out = append(out, s)
	}
	return out
}

func TestJudge(t *testing.T) {
	t.Parallel()
	cfg := ceilings(t, limits)
	cost := func(n float64) func(*tasks.Task) { return func(t *tasks.Task) { t.Total.Cost = dollars(n) } }
	ten := int64(10e9)
	twenty := int64(20e9)
	for name, c := range map[string]struct {
		task     tasks.Task
		override *store.CeilingOverride
		end      *store.TaskEnd
		known    []store.Alert
		config   string // else limits
		unread   bool   // for a part of the time
		want     []string
	}{
		"nothing spent":           {task: spent(func(*tasks.Task) {})},
		"below every threshold":   {task: spent(cost(4.99))},
		"at a threshold":          {task: spent(cost(5)), want: []string{"TaskCostCeiling 50 firing"}},
		"over all at once":        {task: spent(cost(11)), want: []string{"TaskCostCeiling 50 firing", "TaskCostCeiling 80 firing", "TaskCostCeiling 100 firing"}},
		"the next threshold":      {task: spent(cost(8)), known: []store.Alert{fires("TaskCostCeiling", 50, ten)}, want: []string{"TaskCostCeiling 80 firing"}},
		"what fires goes on":      {task: spent(cost(5)), known: []store.Alert{fires("TaskCostCeiling", 50, ten)}},
		"a correction takes back": {task: spent(cost(4)), known: []store.Alert{fires("TaskCostCeiling", 50, ten)}, want: []string{"TaskCostCeiling 50 resolved: " + becauseBelow}},
		"two dimensions": {
			task: spent(func(t *tasks.Task) { t.Total.Cost, t.Total.Tokens = dollars(5), 800 }),
			want: []string{"TaskCostCeiling 50 firing", "TaskTokenCeiling 50 firing", "TaskTokenCeiling 80 firing"},
		},
		"a dimension without a limit": {task: spent(func(t *tasks.Task) { t.Runs, t.Total.OutputTokens = 1e6, 1e9 })},
		"subagents":                   {task: spent(func(t *tasks.Task) { t.Subagents = 4 }), want: []string{"SessionSubagentsCeiling 50 firing", "SessionSubagentsCeiling 80 firing"}},
		"an hour":                     {task: spent(func(t *tasks.Task) { t.Hour.Cost = dollars(2) }), want: []string{"TaskHourlyCostCeiling 50 firing"}},
		"an hour that eases a little": {task: spent(func(t *tasks.Task) { t.Hour.Cost = dollars(1.85) }), known: []store.Alert{fires("TaskHourlyCostCeiling", 50, 4e9)}},
		"an hour that eases": {
			task:  spent(func(t *tasks.Task) { t.Hour.Cost = dollars(1.79) }),
			known: []store.Alert{fires("TaskHourlyCostCeiling", 50, 4e9)}, want: []string{"TaskHourlyCostCeiling 50 resolved: " + becauseBelow},
		},
		"tokens without a price": {
			task: spent(func(t *tasks.Task) { t.Total.UnpricedTokens = 1 }), want: []string{"TaskUnpricedTokens firing"},
		},
		"tokens that got one": {task: spent(cost(1)), known: []store.Alert{fires("TaskUnpricedTokens", 0, 0)}, want: []string{"TaskUnpricedTokens resolved: " + becauseBelow}},
		"exempt": {
			task: spent(func(t *tasks.Task) { t.Total.Cost, t.Total.UnpricedTokens = dollars(20), 1 }), override: &store.CeilingOverride{Exempt: true},
		},
		"exempt while it fires": {
			task: spent(cost(6)), override: &store.CeilingOverride{Exempt: true},
			known: []store.Alert{fires("TaskCostCeiling", 50, ten)}, want: []string{"TaskCostCeiling 50 resolved: " + becauseRaised},
		},
		"raised while it fires": {
			task: spent(cost(10)), override: &store.CeilingOverride{CostNano: &twenty},
			known: []store.Alert{fires("TaskCostCeiling", 50, ten), fires("TaskCostCeiling", 80, ten), fires("TaskCostCeiling", 100, ten)},
			want:  []string{"TaskCostCeiling 80 resolved: " + becauseRaised, "TaskCostCeiling 100 resolved: " + becauseRaised},
		},
		"ended": {
			task: spent(cost(6)), end: &store.TaskEnd{At: noon},
			known: []store.Alert{fires("TaskCostCeiling", 50, ten)}, want: []string{"TaskCostCeiling 50 resolved: " + becauseEnded},
		},
		"ended before it crossed":  {task: spent(cost(11)), end: &store.TaskEnd{At: noon}},
		"its last push came after": {task: spent(cost(11)), end: &store.TaskEnd{At: noon.Add(-6 * time.Minute)}},
		"it went on after its end": {
			task: spent(cost(6)), end: &store.TaskEnd{At: noon.Add(-20 * time.Minute)}, want: []string{"TaskCostCeiling 50 firing"},
		},
		"quiet": {
			task:  spent(func(t *tasks.Task) { t.Total.Cost, t.LastSpend = dollars(6), noon.Add(-121*time.Minute) }),
			known: []store.Alert{fires("TaskCostCeiling", 50, ten)}, want: []string{"TaskCostCeiling 50 resolved: " + becauseQuiet},
		},
		"quiet, as far as could be read": {
			task:  spent(func(t *tasks.Task) { t.Total.Cost, t.LastSpend = dollars(6), noon.Add(-121*time.Minute) }),
			known: []store.Alert{fires("TaskCostCeiling", 50, ten)}, unread: true,
		},
		"runs in an hour": {
			task: spent(func(t *tasks.Task) { t.HourRuns = 6 }), config: "default: {hour: {runs: 6}}",
			want: []string{"TaskHourlyRunsCeiling 50 firing", "TaskHourlyRunsCeiling 80 firing", "TaskHourlyRunsCeiling 100 firing"},
		},
		"runs in an hour, once more": {
			task: spent(func(t *tasks.Task) { t.HourRuns = 6 }), config: "default: {hour: {runs: 6}}",
			known: []store.Alert{fires("TaskHourlyRunsCeiling", 50, 6), fires("TaskHourlyRunsCeiling", 80, 6), fires("TaskHourlyRunsCeiling", 100, 6)},
		},
		"fewer runs in an hour": {
			task: spent(func(t *tasks.Task) { t.HourRuns = 5 }), config: "default: {hour: {runs: 6}}",
			known: []store.Alert{fires("TaskHourlyRunsCeiling", 50, 6), fires("TaskHourlyRunsCeiling", 80, 6), fires("TaskHourlyRunsCeiling", 100, 6)},
			want:  []string{"TaskHourlyRunsCeiling 100 resolved: " + becauseBelow},
		},
		"quiet for long already": {task: spent(func(t *tasks.Task) { t.Total.Cost, t.LastSpend = dollars(60), noon.Add(-240*time.Hour) })},
		"a threshold that is configured no more": {
			task: spent(cost(6)), known: []store.Alert{fires("TaskCostCeiling", 50, ten), fires("TaskCostCeiling", 33, ten)},
			want: []string{"TaskCostCeiling 33 resolved: " + becauseRaised},
		},
		"nothing is left of it": {
			task: tasks.Task{Name: "t"}, known: []store.Alert{fires("TaskCostCeiling", 50, ten)}, want: []string{"TaskCostCeiling 50 resolved: " + becauseQuiet},
		},
	} {
		known := map[store.AlertID]store.Alert{}
		for _, a := range c.known {
			known[a.AlertID] = a
		}
		cfg := cfg
		if c.config != "" {
			cfg = ceilings(t, c.config)
		}
		s := stand(cfg, c.task, noon, c.override, c.end)
		changes := judge(&s, cfg.Thresholds, !c.unread, known)
		if diff := cmp.Diff(c.want, told(changes)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		for _, ch := range changes {
			if want := known[ch.AlertID].Episode; ch.Seen != want || !ch.AsOf.Equal(noon) {
				t.Errorf("%s: seen %d, want %d; as of %v", name, ch.Seen, want, ch.AsOf)
			}
		}
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	cfg := ceilings(t, limits)
	for _, c := range []struct {
		cost   float64
		tokens uint64
		want   State
	}{{0, 0, OK}, {7.99, 0, OK}, {8, 0, Warn}, {0, 800, Warn}, {9.99, 999, Warn}, {10, 0, Exceeded}, {1, 1000, Exceeded}, {100, 1, Exceeded}} {
		s := stand(cfg, spent(func(t *tasks.Task) { t.Total.Cost, t.Total.Tokens = dollars(c.cost), c.tokens }), noon, nil, nil)
		if s.State != c.want {
			t.Errorf("$%v and %d tokens: %s, want %s", c.cost, c.tokens, s.State, c.want)
		}
	}
}

func TestProjection(t *testing.T) {
	t.Parallel()
	cfg := ceilings(t, limits)
	for name, c := range map[string]struct {
		change  func(*tasks.Task)
		perHour usage.Nano
		want    time.Duration // from now; 0: never
	}{
		// The hour began at 11:00, 62 minutes ago.
		"an hour and longer": {func(t *tasks.Task) {
			t.FirstSpend, t.Total.Cost, t.Hour.Cost = noon.Add(-5*time.Hour), dollars(6.9), dollars(3.1)
		}, 3e9, 62 * time.Minute},
		"half an hour": {func(t *tasks.Task) {
			t.FirstSpend, t.Total.Cost, t.Hour.Cost = noon.Add(-30*time.Minute), dollars(2), dollars(2)
		}, 4e9, 2 * time.Hour},
		"the first seconds": {func(t *tasks.Task) {
			t.FirstSpend, t.Total.Cost, t.Hour.Cost = noon, dollars(1), dollars(1)
		}, 12e9, 45 * time.Minute},
		"tokens come first": {func(t *tasks.Task) {
			t.FirstSpend, t.Total.Cost, t.Hour.Cost = noon.Add(-30*time.Minute), dollars(2), dollars(2)
			t.Total.Tokens, t.Hour.Tokens = 600, 400
		}, 4e9, 30 * time.Minute},
		"nothing in the last hour": {func(t *tasks.Task) { t.FirstSpend, t.Total.Cost = noon.Add(-5*time.Hour), dollars(6) }, 0, 0},
		"over it":                  {func(t *tasks.Task) { t.Total.Cost, t.Hour.Cost = dollars(12), dollars(12) }, 12e9, 0},
	} {
		s := stand(cfg, spent(c.change), noon, nil, nil)
		var got time.Duration
		if !s.ReachedAt.IsZero() {
			got = s.ReachedAt.Sub(noon)
		}
		if d := got - c.want; d < -time.Second || d > time.Second {
			t.Errorf("%s: reached in %v, want %v", name, got, c.want)
		}
		if d := s.PerHour - c.perHour; d < -10 || d > 10 {
			t.Errorf("%s: %s per hour, want %s", name, s.PerHour, c.perHour)
		}
	}
}
