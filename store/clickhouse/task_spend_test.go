package clickhouse

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// taskCharge is a charge of a task, $1 a call of 10 tokens, 4 of them output.
func taskCharge(name, task string, t time.Time, l usage.Labels) usage.Charge {
	l.Task = task
	return usage.Charge{
		ID: usage.Hash(name), FactRun: "fact-" + l.Run, Feed: usage.FeedCall, Time: t, Labels: l, Requests: 1,
		Tokens:   usage.Tokens{Input: 1, Output: 4, CacheRead: 2, CacheWrite: 3},
		Computed: usage.Some(1e9), Cost: usage.Some(1e9), Counted: true,
	}
}

func taskSpend(t *testing.T, s *Store, q TaskQuery) []TaskSpend {
	t.Helper()
	var out []TaskSpend
	if err := s.TaskSpend(t.Context(), q, func(p *TaskSpend) { out = append(out, *p) }); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		slices.Sort(out[i].Runs)
		slices.SortFunc(out[i].Agents, func(a, b SessionAgent) int {
			return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Agent, b.Agent))
		})
	}
	slices.SortFunc(out, func(a, b TaskSpend) int { return cmp.Or(cmp.Compare(a.Task, b.Task), a.First.Compare(b.First)) })
	return out
}

func TestTaskSpend(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	midnight := at(-12 * time.Hour)
	unpriced := taskCharge("unpriced", "a", at(2*time.Minute), usage.Labels{
		Project: "demo", Repo: "r", Kind: "implement", Issue: "r#1", Run: "r1", Session: "s1", Model: "unheard", Agent: "Explore",
	})
	unpriced.Cost, unpriced.Computed, unpriced.UnpricedTokens, unpriced.Requests, unpriced.Approximate = usage.NullNano{}, usage.NullNano{}, 10, 0, true
	charges := []usage.Charge{
		taskCharge("1", "a", midnight.Add(-time.Minute), usage.Labels{Kind: "old", Run: "r0"}),
		taskCharge("2", "a", midnight, usage.Labels{Kind: "refine", Run: "r1", Model: "m"}),
		taskCharge("3", "a", midnight.Add(time.Hour), usage.Labels{Kind: "refine", Run: "r2", Model: "m"}),
		taskCharge("4", "a", at(0), usage.Labels{Project: "demo", Kind: "review", Run: "r1", Session: "s1", Model: "m", Agent: "Plan"}),
		unpriced,
		taskCharge("6", "it's", at(0), usage.Labels{Kind: "review"}),
		taskCharge("7", "", at(0), usage.Labels{Kind: "review"}),
	}
	write(t, s, 1, Derived{Charges: charges})
	sums := func(n uint64) TaskSums {
		return TaskSums{Requests: n, Input: n, Output: 4 * n, CacheRead: 2 * n, CacheWrite: 3 * n, Cost: usage.Some(usage.Nano(n) * 1e9)}
	}
	before := TaskSpend{
		Task: "a", Start: midnight.AddDate(0, 0, -1), Day: true, Kind: "old", First: midnight.Add(-5 * time.Minute), Last: midnight.Add(-5 * time.Minute),
		TaskSums: sums(1), Models: []ModelSpend{{"", 1e9, 10}}, Runs: []string{"r0"}, Agents: []SessionAgent{},
	}
	today := TaskSpend{
		Task: "a", Start: midnight, Day: true, Kind: "refine", First: midnight, Last: midnight.Add(time.Hour),
		TaskSums: sums(2), Models: []ModelSpend{{"m", 2e9, 20}}, Runs: []string{"r1", "r2"}, Agents: []SessionAgent{},
	}
	now := TaskSpend{
		Task: "a", Start: at(0), Project: "demo", Kind: "review", First: at(0), Last: at(0),
		TaskSums: sums(2), Models: []ModelSpend{{"m", 1e9, 10}, {"unheard", 0, 10}}, Runs: []string{"r1"},
		Agents: []SessionAgent{{"s1", "Explore"}, {"s1", "Plan"}},
	}
	// Of two sets of labels in the latest bucket, the greatest.
	now.Repo, now.Kind, now.Issue = "r", "implement", "r#1"
	now.Requests, now.Cost, now.UnpricedTokens, now.Approximate = 1, usage.Some(1e9), 10, true
	other := TaskSpend{
		Task: "it's", Start: at(0), Kind: "review", First: at(0), Last: at(0),
		TaskSums: sums(1), Models: []ModelSpend{{"", 1e9, 10}}, Runs: []string{}, Agents: []SessionAgent{},
	}
	split := at(0)
	for range 2 { // dirty, then closed
		for name, test := range map[string]struct {
			q    TaskQuery
			want []TaskSpend
		}{
			"all":            {TaskQuery{Split: split}, []TaskSpend{before, today, now, other}},
			"of a task":      {TaskQuery{Split: split, Tasks: []string{"it's"}}, []TaskSpend{other}},
			"active":         {TaskQuery{Split: split, ActiveSince: midnight}, []TaskSpend{before, today, now, other}},
			"none active":    {TaskQuery{Split: split, ActiveSince: at(5 * time.Minute)}, nil},
			"one bucket":     {TaskQuery{Split: split, Partly: true, Buckets: []time.Time{at(0)}}, []TaskSpend{now, other}},
			"another bucket": {TaskQuery{Split: split, Partly: true, Buckets: []time.Time{at(time.Hour)}}, nil},
			"a day":          {TaskQuery{Split: split, Partly: true, Days: []time.Time{midnight}}, []TaskSpend{today}},
			"bucket and day": {TaskQuery{Split: split, Partly: true, Buckets: []time.Time{at(0)}, Days: []time.Time{midnight.AddDate(0, 0, -1)}}, []TaskSpend{before, now, other}},
			"a month":        {TaskQuery{Split: split, Month: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}, []TaskSpend{before, today, now, other}},
			"another month":  {TaskQuery{Split: split, Month: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)}, nil},
			"nothing":        {TaskQuery{Split: split, Partly: true}, nil},
		} {
			if diff := gocmp.Diff(test.want, taskSpend(t, s, test.q)); diff != "" {
				t.Errorf("%s:\n%s", name, diff)
			}
		}
		closeAll(t, s)
	}
}

func TestTaskMonths(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	month := func(m time.Month) time.Time { return time.Date(2026, m, 1, 0, 0, 0, 0, time.UTC) }
	write(t, s, 1, Derived{Charges: []usage.Charge{
		taskCharge("1", "a", month(11), usage.Labels{}), taskCharge("2", "b", month(11).Add(-time.Millisecond), usage.Labels{}),
		taskCharge("3", "c", month(8).Add(5*time.Hour), usage.Labels{}), taskCharge("4", "", month(7), usage.Labels{}),
	}, Activity: []usage.Activity{
		taskTurns("5", "d", "ok", month(9), 1), taskTurns("6", "a", "ok", month(8), 1), taskTurns("7", "", "ok", month(6), 1),
	}})
	got, err := s.TaskMonths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]time.Time{month(8), month(9), month(10), month(11)}, got); diff != "" {
		t.Error(diff)
	}
	for i, want := range [][]string{{"c"}, nil, {"b"}, {"a"}} {
		var names []string
		for _, p := range taskSpend(t, s, TaskQuery{Split: month(12), Month: got[i]}) {
			names = append(names, p.Task)
		}
		if diff := gocmp.Diff(want, names); diff != "" {
			t.Errorf("%v:\n%s", got[i], diff)
		}
	}
}

func TestTaskTotals(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	uncosted := taskCharge("4", "b", at(0), usage.Labels{})
	uncosted.Cost, uncosted.Requests = usage.NullNano{}, 0
	write(t, s, 1, Derived{Charges: []usage.Charge{
		taskCharge("1", "a", at(0), usage.Labels{Run: "r1"}), taskCharge("2", "a", at(time.Hour), usage.Labels{Run: "r2"}),
		taskCharge("3", "a", at(2*time.Hour), usage.Labels{Run: "r1"}), uncosted, taskCharge("5", "", at(0), usage.Labels{}),
	}})
	for _, test := range []struct {
		names []string
		want  map[string]TaskTotal
	}{
		{nil, map[string]TaskTotal{
			"a": {"a", TaskSums{Requests: 3, Input: 3, Output: 12, CacheRead: 6, CacheWrite: 9, Cost: usage.Some(3e9)}, 2, at(2 * time.Hour)},
			"b": {"b", TaskSums{Input: 1, Output: 4, CacheRead: 2, CacheWrite: 3}, 0, at(0)},
		}},
		{[]string{"b", "c"}, map[string]TaskTotal{
			"b": {"b", TaskSums{Input: 1, Output: 4, CacheRead: 2, CacheWrite: 3}, 0, at(0)},
		}},
	} {
		got := map[string]TaskTotal{}
		if err := s.TaskTotals(t.Context(), test.names, func(x *TaskTotal) { got[x.Task] = *x }); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v:\n%s", test.names, diff)
		}
	}
}

func TestTaskMarks(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	got, err := s.TaskMarks(ctx, time.Time{})
	if err != nil || got.Now.IsZero() || len(got.Marks) > 0 {
		t.Fatalf("of an empty ledger: %+v, error %v", got, err)
	}
	start := got.Now
	write(t, s, 1, Derived{Charges: []usage.Charge{taskCharge("1", "a", at(0), usage.Labels{})}})
	if err := s.OpenMarks(ctx, 7, []time.Time{at(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	written, open := TaskMark{at(0), 1, false}, TaskMark{at(time.Hour), 7, true}
	for range 2 { // written, then closed
		for _, test := range []struct {
			since time.Time
			want  []TaskMark
		}{
			{start, []TaskMark{written, open}},
			{start.Add(time.Hour), []TaskMark{open}},
			{time.Time{}, []TaskMark{open}},
		} {
			got, err := s.TaskMarks(ctx, test.since)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(test.want, got.Marks); diff != "" {
				t.Errorf("since %v:\n%s", test.since, diff)
			}
		}
		closeAll(t, s)
	}
}

func TestTaskCosts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var charges []usage.Charge
	for i, minute := range []time.Duration{0, 10, 60, 64, 65, 300} { // the most of 13 buckets is 10 to 65: four
		charges = append(charges, taskCharge(string(rune('a'+i)), "runaway", at(minute*time.Minute), usage.Labels{Kind: "review", Project: "demo", Run: string(rune('p' + i%2))}))
	}
	uncosted := taskCharge("u", "uncosted", at(0), usage.Labels{Kind: "old"})
	uncosted.Cost, uncosted.UnpricedTokens = usage.NullNano{}, 10
	later := taskCharge("l", "uncosted", at(5*time.Minute), usage.Labels{Kind: "new"})
	later.Cost = usage.NullNano{}
	charges = append(charges, uncosted, later, taskCharge("g", "gone", at(-time.Hour), usage.Labels{}), taskCharge("n", "", at(0), usage.Labels{}))
	write(t, s, 1, Derived{Charges: charges})
	want := []TaskCost{
		{Task: "runaway", Kind: "review", Project: "demo", Cost: usage.Some(6e9), Tokens: 60, OutputTokens: 24, Runs: 2, HourCost: 4e9, HourTokens: 40, HourOutputTokens: 16},
		{Task: "uncosted", Kind: "new", Tokens: 20, OutputTokens: 8, UnpricedTokens: 10, HourTokens: 20, HourOutputTokens: 8},
	}
	for range 2 {
		got, err := s.TaskCosts(t.Context(), at(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		kinds, err := s.Kinds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]string{"new", "old", "review"}, kinds); diff != "" {
			t.Error(diff)
		}
		closeAll(t, s)
	}
}
