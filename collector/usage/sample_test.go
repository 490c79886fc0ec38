package usage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sampleCounters() Counters {
	label := func(project, repo, kind, model string) SampleLabels {
		return SampleLabels{Project: project, Repo: repo, Kind: kind, Model: model}
	}
	return Counters{
		Tokens: []TokenCounter{
			{Labels: label("p", "r", "implement", "a"), Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4},
			{Labels: label("p", "r", "implement", "b"), Input: 5},
			{Labels: label("p", "r", "review", "a"), Input: 6},
			{Labels: label("p", "", "review", "a"), Output: 7},
			{Labels: label("", "", "", "a"), CacheRead: 8},
		},
		Costs: []CostCounter{
			{Labels: label("p", "r", "implement", ""), Cost: 9},
			{Labels: label("p", "r", "review", ""), Cost: 10},
		},
		Turns: []TurnCounter{{Result: "completed", Count: 3}, {Result: "failed", Count: 1}},
		Tools: []ToolCounter{{Tool: "Bash", Outcome: "error", Count: 1}, {Tool: "Bash", Outcome: "ok", Count: 4}, {Tool: "Edit", Outcome: "ok", Count: 2}},
		Durations: DurationCounter{
			Count: 4, Sum: 12.5, Bounds: []float64{1, 10}, Buckets: []uint64{1, 3},
		},
	}
}

func mustSample(t *testing.T, run, pod string, arrived time.Time, pushes uint64, c Counters) Sample {
	t.Helper()
	s, err := NewSample(run, pod, arrived, pushes, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewSampleDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	arrived := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
	want := mustSample(t, "run", "pod", arrived, 7, sampleCounters())
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		c := sampleCounters()
		rnd.Shuffle(len(c.Tokens), func(i, j int) { c.Tokens[i], c.Tokens[j] = c.Tokens[j], c.Tokens[i] })
		rnd.Shuffle(len(c.Costs), func(i, j int) { c.Costs[i], c.Costs[j] = c.Costs[j], c.Costs[i] })
		rnd.Shuffle(len(c.Turns), func(i, j int) { c.Turns[i], c.Turns[j] = c.Turns[j], c.Turns[i] })
		rnd.Shuffle(len(c.Tools), func(i, j int) { c.Tools[i], c.Tools[j] = c.Tools[j], c.Tools[i] })
		if diff := cmp.Diff(want, mustSample(t, "run", "pod", arrived, 7, c)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// TestSampleIdentity: run, pushes and every counter are part of it; pod and
// arrival are not.
func TestSampleIdentity(t *testing.T) {
	t.Parallel()
	arrived := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
	base := mustSample(t, "run", "pod", arrived, 7, sampleCounters()).ID
	if got := mustSample(t, "run", "another", arrived.Add(time.Hour), 7, sampleCounters()).ID; got != base {
		t.Error("pod or arrival are part of the identity")
	}
	seen := map[ID]string{base: "the sample"}
	add := func(name string, s Sample) {
		if twin, ok := seen[s.ID]; ok {
			t.Errorf("%s is the same as %s", name, twin)
		}
		seen[s.ID] = name
	}
	add("run", mustSample(t, "run2", "pod", arrived, 7, sampleCounters()))
	add("pushes", mustSample(t, "run", "pod", arrived, 8, sampleCounters()))
	for name, change := range map[string]func(*Counters){
		"input":      func(c *Counters) { c.Tokens[0].Input++ },
		"output":     func(c *Counters) { c.Tokens[0].Output++ },
		"read":       func(c *Counters) { c.Tokens[0].CacheRead++ },
		"write":      func(c *Counters) { c.Tokens[0].CacheWrite++ },
		"project":    func(c *Counters) { c.Tokens[0].Labels.Project = "q" },
		"repo":       func(c *Counters) { c.Tokens[0].Labels.Repo = "q" },
		"kind":       func(c *Counters) { c.Tokens[0].Labels.Kind = "q" },
		"model":      func(c *Counters) { c.Tokens[0].Labels.Model = "q" },
		"cost":       func(c *Counters) { c.Costs[0].Cost++ },
		"cost label": func(c *Counters) { c.Costs[0].Labels.Kind = "q" },
		"turn":       func(c *Counters) { c.Turns[0].Count++ },
		"result":     func(c *Counters) { c.Turns[0].Result = "q" },
		"tool count": func(c *Counters) { c.Tools[0].Count++ },
		"tool":       func(c *Counters) { c.Tools[0].Tool = "q" },
		"outcome":    func(c *Counters) { c.Tools[0].Outcome = "q" },
		"count":      func(c *Counters) { c.Durations.Count++ },
		"sum":        func(c *Counters) { c.Durations.Sum = math.Nextafter(c.Durations.Sum, 13) },
		"bound":      func(c *Counters) { c.Durations.Bounds[1] = 11 },
		"bucket":     func(c *Counters) { c.Durations.Buckets[0]++ },
		"one less":   func(c *Counters) { c.Tokens = c.Tokens[1:] },
		"none":       func(c *Counters) { *c = Counters{} },
	} {
		c := sampleCounters()
		change(&c)
		add(name, mustSample(t, "run", "pod", arrived, 7, c))
	}
}

func TestNewSampleRefusesWhatHasNoText(t *testing.T) {
	t.Parallel()
	for _, sum := range []float64{math.NaN(), math.Inf(1)} {
		c := Counters{Durations: DurationCounter{Sum: sum}}
		if s, err := NewSample("run", "pod", time.Time{}, 0, c); err == nil {
			t.Errorf("%v: %+v", sum, s)
		}
	}
}

func TestSampleLabelsCompare(t *testing.T) {
	t.Parallel()
	list := []SampleLabels{
		{}, {Model: "a"}, {Model: "b"}, {Kind: "a"}, {Repo: "a"}, {Repo: "a", Model: "a"}, {Project: "a"}, {Project: "b"},
	}
	if !slices.IsSortedFunc(list, SampleLabels.Compare) {
		t.Error("labels are not ordered by project, repo, kind, model")
	}
	for i, a := range list {
		for j, b := range list {
			if (a.Compare(b) == 0) != (i == j) || a.Compare(b) != -b.Compare(a) {
				t.Errorf("%+v and %+v", a, b)
			}
		}
	}
}
