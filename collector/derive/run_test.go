package derive

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func TestRunLabels(t *testing.T) {
	t.Parallel()
	own := usage.Counters{Tokens: []usage.TokenCounter{
		{Labels: usage.SampleLabels{Project: "p", Repo: "own", Kind: "review", Model: "claude-opus-4-8"}, Input: 5},
		{Labels: usage.SampleLabels{Project: "p", Kind: "review", Model: "claude-sonnet-5"}, Input: 7},
	}}
	s := mustSample(t, "run", noon, 1, own)
	s.Pod = "agent-task-7-x"
	link := &usage.Link{
		Run: "run", Task: "T1", Session: "S", Issue: "o/r#1", Kind: "implement", Repo: "linked", Project: "q", Effort: "high",
	}
	for name, c := range map[string]struct {
		pattern string
		link    *usage.Link
		task    string
		opus    usage.Labels // the repo of the other model is what the link says
		repo    string
	}{
		"no link: the task is the pod": {
			task: "agent-task-7-x",
			opus: usage.Labels{Project: "p", Repo: "own", Kind: "review", Task: "agent-task-7-x", Run: "run", Model: "claude-opus-4-8"},
		},
		"the pattern takes the task out of the pod": {
			pattern: `agent-(.*)-x`,
			opus:    usage.Labels{Project: "p", Repo: "own", Kind: "review", Task: "task-7", Run: "run", Model: "claude-opus-4-8"},
		},
		"a pattern that does not match": {
			pattern: `worker-(.*)`,
			opus:    usage.Labels{Project: "p", Repo: "own", Kind: "review", Task: "agent-task-7-x", Run: "run", Model: "claude-opus-4-8"},
		},
		"the link's task wins, own labels win over the link's, empty ones are filled": {
			pattern: `agent-(.*)-x`, link: link, repo: "linked",
			opus: usage.Labels{
				Project: "p", Repo: "own", Kind: "review", Task: "T1", Issue: "o/r#1", Run: "run", Session: "S",
				Model: "claude-opus-4-8", Effort: "high",
			},
		},
		"a link without a task but with a pod": {
			pattern: `agent-(.*)-x`, link: &usage.Link{Run: "run", Pod: "agent-other-x"},
			opus: usage.Labels{Project: "p", Repo: "own", Kind: "review", Task: "other", Run: "run", Model: "claude-opus-4-8"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pattern *regexp.Regexp
			if c.pattern != "" {
				pattern = regexp.MustCompile(c.pattern)
			}
			got := New(book(t), pattern).Run(RunFacts{Run: "run", Samples: []usage.Sample{s}, Link: c.link})
			labels := map[string]usage.Labels{}
			for _, ch := range got.Charges {
				labels[ch.Labels.Model] = ch.Labels
			}
			want := c.opus
			if diff := cmp.Diff(want, labels["claude-opus-4-8"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// A value that only another series carries is not borrowed.
			want.Model, want.Repo = "claude-sonnet-5", c.repo
			if diff := cmp.Diff(want, labels["claude-sonnet-5"]); diff != "" {
				t.Errorf("of the series without repo (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDollarCounters: they count only where no token of the run has a price,
// and what they say is always kept.
func TestDollarCounters(t *testing.T) {
	t.Parallel()
	series := func(model string) []usage.TokenCounter {
		if model == "" {
			return nil
		}
		return []usage.TokenCounter{{Labels: usage.SampleLabels{Model: model}, Input: 1_000_000}}
	}
	for name, c := range map[string]struct {
		model   string
		covered map[string]bool
		cost    usage.NullNano // what the run costs
		counted bool           // the dollar counter's charge
	}{
		"no tokens at all":           {"", nil, usage.Some(2e9), true},
		"unknown model":              {"no-such-model", nil, usage.Some(2e9), true},
		"priced model":               {"claude-opus-4-8", nil, usage.Some(5e9), true},
		"covered by another feed":    {"claude-opus-4-8", map[string]bool{"claude-opus-4-8": true}, usage.NullNano{}, false},
		"another model is covered":   {"claude-opus-4-8", map[string]bool{"claude-sonnet-5": true}, usage.Some(5e9), false},
		"unknown, and it is covered": {"no-such-model", map[string]bool{"no-such-model": true}, usage.NullNano{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustSample(t, "run", noon, 1, usage.Counters{Tokens: series(c.model), Costs: []usage.CostCounter{{Cost: 2e9}}})
			got := New(book(t), nil).Run(RunFacts{Run: "run", Samples: []usage.Sample{s}, Covered: c.covered})
			var cost usage.NullNano
			for _, ch := range got.Charges {
				if ch.Counted {
					cost = cost.Plus(ch.Cost)
				}
				if ch.Reported.Valid && (ch.Reported != usage.Some(2e9) || ch.Counted != c.counted || ch.Labels.Model != "") {
					t.Errorf("the dollar counter became %+v", ch)
				}
				if ch.Requests != 0 || ch.Feed != usage.FeedPush {
					t.Errorf("a push knows no requests: %+v", ch)
				}
			}
			if cost != c.cost {
				t.Errorf("costs %+v, want %+v", cost, c.cost)
			}
		})
	}
}

// TestCoveredCountsPerModel: a more trusted feed speaks of one model only.
func TestCoveredCountsPerModel(t *testing.T) {
	t.Parallel()
	s := mustSample(t, "run", noon, 1, usage.Counters{Tokens: []usage.TokenCounter{
		{Labels: usage.SampleLabels{Model: "a"}, Input: 1}, {Labels: usage.SampleLabels{Model: "b"}, Input: 2},
	}})
	got := New(book(t), nil).Run(RunFacts{Run: "run", Samples: []usage.Sample{s}, Covered: map[string]bool{"a": true}})
	counted := map[string]bool{}
	for _, c := range got.Charges {
		counted[c.Labels.Model] = c.Counted
	}
	if diff := cmp.Diff(map[string]bool{"a": false, "b": true}, counted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestActivity(t *testing.T) {
	t.Parallel()
	at := func(p uint64, turns, tools, seconds uint64) usage.Sample {
		return mustSample(t, "run", noon, p, usage.Counters{
			Turns: []usage.TurnCounter{{Result: "complete", Count: turns}},
			Tools: []usage.ToolCounter{{Tool: "Bash", Outcome: "error", Count: tools}},
			Durations: usage.DurationCounter{
				Count: turns, Sum: float64(seconds), Bounds: []float64{60}, Buckets: []uint64{turns - 1},
			},
		})
	}
	got := New(book(t), nil).Run(RunFacts{Run: "run", Samples: []usage.Sample{at(1, 2, 5, 100), at(2, 3, 5, 150), at(0, 1, 1, 9)}})
	type sum struct {
		Count   uint64
		Seconds float64
		Below   uint64
	}
	sums := map[usage.ActivityName]sum{}
	for _, a := range got.Activity {
		s := sums[a.Name]
		s.Count += a.Count
		s.Seconds += a.Seconds
		if len(a.Buckets) > 0 {
			s.Below += a.Buckets[0]
		}
		sums[a.Name] = s
	}
	want := map[usage.ActivityName]sum{
		usage.ActivityTurns: {Count: 3}, usage.ActivityTools: {Count: 5}, usage.ActivityDurations: {3, 150, 2},
	}
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
