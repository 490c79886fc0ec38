package tasks

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// memory is a ledger that costs nothing to ask: every task spent a day ago,
// those that live in the current bucket too, and some of them once more in
// every round.
type memory struct {
	tasks, live, changed int
	round                usage.Nano
}

func (m *memory) TaskMarks(context.Context, time.Time) (clickhouse.TaskMarks, error) {
	out := clickhouse.TaskMarks{Now: noon}
	if m.changed > 0 && m.round > 0 {
		out.Marks = []clickhouse.TaskMark{{Bucket: usage.Bucket(noon), Mark: uint64(m.round)}} //nolint:gosec // few rounds
	}
	return out, nil
}

func (m *memory) TaskMonths(context.Context) ([]time.Time, error) { return []time.Time{noon}, nil }

func (m *memory) TaskSpend(_ context.Context, q clickhouse.TaskQuery, use func(*clickhouse.TaskSpend)) error {
	now := usage.Bucket(noon)
	row := func(i int, cost usage.Nano) *clickhouse.TaskSpend {
		return &clickhouse.TaskSpend{
			Task: fmt.Sprint("task-", i), Start: now, First: now, Last: now, Project: "demo", Repo: "acme/widgets", Kind: "review",
			TaskSums: clickhouse.TaskSums{Requests: 1, Input: 1, Cost: usage.Some(cost)},
			Models:   []clickhouse.ModelSpend{{Model: "opus", Cost: cost, Tokens: 1}}, Runs: []string{"r"},
		}
	}
	for i := range m.live {
		if i < m.changed {
			use(row(i, m.round))
		} else {
			use(row(i, 1))
		}
	}
	for i := 0; !q.Partly && i < m.tasks; i++ {
		r := row(i, 1)
		r.Start, r.Day = now.Truncate(day).AddDate(0, 0, -1), true
		r.First, r.Last = r.Start, r.Start
		use(r)
	}
	return nil
}

// TaskTurns are three of every task that lives.
func (m *memory) TaskTurns(_ context.Context, _ clickhouse.TaskQuery, use func(*clickhouse.TaskTurns)) error {
	now := usage.Bucket(noon)
	for i := range m.live {
		use(&clickhouse.TaskTurns{
			Task: fmt.Sprint("task-", i), Start: now, Results: []clickhouse.ResultTurns{{Result: "error", Turns: 1}, {Result: "success", Turns: 2}},
			Last: now, LastResult: "success",
		})
	}
	return nil
}

func (m *memory) TaskTurnTotals(context.Context, []string, func(*clickhouse.TaskTurns)) error {
	return nil
}

func (m *memory) TaskTotals(context.Context, []string, func(*clickhouse.TaskTotal)) error { return nil }

// BenchmarkRefresh is what a refresh takes without ClickHouse's part.
func BenchmarkRefresh(b *testing.B) {
	for _, m := range []*memory{
		{tasks: 100_000, live: 1000},
		{tasks: 100_000, live: 1000, changed: 1000},
		{tasks: 100_000, live: 100_000, changed: 1000},
	} {
		b.Run(fmt.Sprintf("tasks=%d/live=%d/changed=%d", m.tasks, m.live, m.changed), func(b *testing.B) {
			w, _ := newWatcher(b, m, nil)
			refresh(b, w)
			b.ReportAllocs()
			for b.Loop() {
				m.round++
				refresh(b, w)
			}
		})
	}
}

// BenchmarkHourRolls is a refresh in which a new bucket begins after all tasks
// spent in the last hour.
func BenchmarkHourRolls(b *testing.B) {
	w, _ := newWatcher(b, &memory{tasks: 100_000, live: 100_000}, nil)
	refresh(b, w)
	b.ReportAllocs()
	for b.Loop() {
		w.current -= int64(bucket.Seconds())
		refresh(b, w)
	}
}

// BenchmarkLedger asks ClickHouse: a million charges of 20 000 tasks over 30
// days.
func BenchmarkLedger(b *testing.B) {
	const charges, tasks, days = 1_000_000, 20_000, 30
	l := newLedger(b)
	for chunk := range 10 {
		rows := make([]usage.Charge, charges/10)
		for i := range rows {
			n := chunk*len(rows) + i
			task := n % tasks
			// A task spends for an hour or so, somewhere within the days.
			start := noon.Add(-time.Duration(task) * days * day / tasks)
			rows[i] = charge(fmt.Sprint(n), fmt.Sprint("task-", task), start.Add(-time.Duration(n/tasks)*time.Minute), usage.Nano(n), usage.Labels{
				Project: "demo", Repo: fmt.Sprint("acme/", task%50), Kind: fmt.Sprint("kind-", task%7), Run: fmt.Sprint("run-", task, "-", n/tasks/20),
				Session: fmt.Sprint("s-", task), Model: fmt.Sprint("model-", n%3), Agent: []string{"", "Explore"}[n/tasks%2],
			})
		}
		l.write(b, rows, nil)
	}
	ledgerBenchmarks(b, l, "dirty")
	l.close(b)
	ledgerBenchmarks(b, l, "closed")
}

func ledgerBenchmarks(b *testing.B, l *ledger, state string) {
	b.Run(state+"/rebuild", func(b *testing.B) {
		for b.Loop() {
			w, _ := newWatcher(b, l, nil)
			if n := refresh(b, w).Len(); n != 20_000 {
				b.Fatalf("%d tasks", n)
			}
		}
	})
	w, _ := newWatcher(b, l, nil)
	refresh(b, w)
	for name, age := range map[string]time.Duration{"current": 0, "day-old": 36 * time.Hour} {
		n := 0
		b.Run(state+"/refresh/"+name, func(b *testing.B) {
			for b.Loop() {
				n++
				b.StopTimer()
				c := charge(fmt.Sprint(state, name, n), "task-0", at(-age), 1, usage.Labels{})
				l.write(b, one(c), nil)
				b.StartTimer()
				refresh(b, w)
			}
		})
	}
	b.Run(state+"/refresh/idle", func(b *testing.B) {
		for b.Loop() {
			refresh(b, w)
		}
	})
	b.Run(state+"/lookup", func(b *testing.B) {
		cold, _ := newWatcher(b, l, nil) // has no snapshot: it asks ClickHouse
		for b.Loop() {
			if _, found, err := cold.Lookup(b.Context(), "task-77"); err != nil || !found {
				b.Fatalf("found %v, error %v", found, err)
			}
		}
	})
	b.Run(state+"/compare", func(b *testing.B) {
		for b.Loop() {
			if err := l.TaskTotals(b.Context(), nil, func(*clickhouse.TaskTotal) {}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
