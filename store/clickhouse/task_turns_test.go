package clickhouse

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// taskTurns are turns of a task that ended alike.
func taskTurns(name, task, result string, t time.Time, n uint64) usage.Activity {
	return usage.Activity{
		ID: usage.Hash(name), FactRun: "r", Feed: usage.FeedPush, Time: t, Labels: usage.Labels{Task: task},
		Name: usage.ActivityTurns, Result: result, Count: n,
	}
}

func TestTaskTurns(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	midnight := at(-12 * time.Hour)
	tool := taskTurns("tool", "a", "", at(3*time.Minute), 9)
	tool.Name = usage.ActivityTools
	timed := taskTurns("timed", "a", "", at(3*time.Minute), 9)
	timed.Name = usage.ActivityDurations
	gone := taskTurns("gone", "a", "ok", at(0), 100)
	write(t, s, 1, Derived{Activity: []usage.Activity{
		taskTurns("1", "a", "ok", midnight.Add(-time.Minute), 1),
		taskTurns("2", "a", "ok", midnight, 2), taskTurns("3", "a", "failed", midnight.Add(time.Hour), 3),
		taskTurns("4", "a", "failed", at(1500*time.Millisecond), 4), taskTurns("5", "a", "ok", at(1500*time.Millisecond), 5),
		taskTurns("6", "a", "failed", at(0), 6), taskTurns("7", "it's", "ok", at(0), 7), taskTurns("8", "", "ok", at(0), 8),
		tool, timed, gone,
	}})
	write(t, s, 2, Derived{
		Charges:      []usage.Charge{taskCharge("1", "a", at(5*time.Minute), usage.Labels{})},
		GoneActivity: []usage.Activity{gone},
	})
	before := TaskTurns{"a", midnight.AddDate(0, 0, -1), true, []ResultTurns{{"ok", 1}}, midnight.Add(-time.Minute), "ok"}
	today := TaskTurns{"a", midnight, true, []ResultTurns{{"failed", 3}, {"ok", 2}}, midnight.Add(time.Hour), "failed"}
	now := TaskTurns{"a", at(0), false, []ResultTurns{{"failed", 10}, {"ok", 5}}, at(1500 * time.Millisecond), "ok"}
	other := TaskTurns{"it's", at(0), false, []ResultTurns{{"ok", 7}}, at(0), "ok"}
	sorted := func(out []TaskTurns, err error) []TaskTurns {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(out, func(a, b TaskTurns) int { return cmp.Or(cmp.Compare(a.Task, b.Task), a.Start.Compare(b.Start)) })
		return out
	}
	split := at(0)
	for name, test := range map[string]struct {
		q    TaskQuery
		want []TaskTurns
	}{
		"all":            {TaskQuery{Split: split}, []TaskTurns{before, today, now, other}},
		"of a task":      {TaskQuery{Split: split, Tasks: []string{"it's"}}, []TaskTurns{other}},
		"active":         {TaskQuery{Split: split, ActiveSince: midnight}, []TaskTurns{before, today, now, other}},
		"active, spend":  {TaskQuery{Split: split, ActiveSince: at(5 * time.Minute)}, []TaskTurns{before, today, now}},
		"none active":    {TaskQuery{Split: split, ActiveSince: at(10 * time.Minute)}, nil},
		"one bucket":     {TaskQuery{Split: split, Partly: true, Buckets: []time.Time{at(0)}}, []TaskTurns{now, other}},
		"another bucket": {TaskQuery{Split: split, Partly: true, Buckets: []time.Time{at(time.Hour)}}, nil},
		"a day":          {TaskQuery{Split: split, Partly: true, Days: []time.Time{midnight}}, []TaskTurns{today}},
		"a month":        {TaskQuery{Split: split, Month: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}, []TaskTurns{before, today, now, other}},
		"another month":  {TaskQuery{Split: split, Month: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)}, nil},
		"nothing":        {TaskQuery{Split: split, Partly: true}, nil},
	} {
		var got []TaskTurns
		err := s.TaskTurns(t.Context(), test.q, func(x *TaskTurns) { got = append(got, *x) })
		if diff := gocmp.Diff(test.want, sorted(got, err)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	total := TaskTurns{Task: "a", Results: []ResultTurns{{"failed", 13}, {"ok", 8}}, Last: now.Last, LastResult: "ok"}
	others := other
	others.Start = time.Time{}
	for _, test := range []struct {
		names []string
		want  []TaskTurns
	}{{nil, []TaskTurns{total, others}}, {[]string{"it's", "unheard of"}, []TaskTurns{others}}} {
		var got []TaskTurns
		err := s.TaskTurnTotals(t.Context(), test.names, func(x *TaskTurns) { got = append(got, *x) })
		if diff := gocmp.Diff(test.want, sorted(got, err)); diff != "" {
			t.Errorf("totals of %v:\n%s", test.names, diff)
		}
	}
}
