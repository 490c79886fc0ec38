package tasks

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// memory is a ledger that costs nothing to ask: every task spent in one bucket
// and on one day, and some of them spend again in every round.
type memory struct {
	tasks, spend int
	round        uint64
}

func (m *memory) TaskMarks(context.Context, time.Time) (clickhouse.TaskMarks, error) {
	out := clickhouse.TaskMarks{Now: noon}
	if m.spend > 0 && m.round > 0 {
		out.Marks = []clickhouse.TaskMark{{Bucket: usage.Bucket(noon), Mark: m.round}}
	}
	return out, nil
}

func (m *memory) TaskSpend(_ context.Context, q clickhouse.TaskSpendQuery, use func(*clickhouse.TaskSpend)) error {
	now := usage.Bucket(noon)
	for i := range m.tasks {
		s := clickhouse.TaskSpend{
			Task: fmt.Sprint("task-", i), Start: now, First: now, Last: now, Project: "demo", Repo: "acme/widgets", Kind: "review",
			TaskSums: clickhouse.TaskSums{Requests: 1, Input: 1, Cost: usage.Some(1)},
			Models:   []clickhouse.ModelSpend{{Model: "opus", Cost: 1, Tokens: 1}}, Runs: []string{"r"},
		}
		if i < m.spend {
			s.Cost = usage.Some(usage.Nano(m.round)) //nolint:gosec // few rounds
		}
		use(&s)
		if !q.Partly {
			s.Start, s.Day = now.Truncate(day).AddDate(0, 0, -1), true
			s.First, s.Last = s.Start, s.Start
			use(&s)
		}
	}
	return nil
}

func (m *memory) TaskTotals(context.Context, []string, func(*clickhouse.TaskTotal)) error { return nil }

// BenchmarkRefresh is what a refresh takes without ClickHouse's part. In the
// last case every task spends in the current bucket, and 1000 of them again.
func BenchmarkRefresh(b *testing.B) {
	for _, spend := range []int{0, 1000} {
		b.Run(fmt.Sprintf("tasks=100000/changed=%d", spend), func(b *testing.B) {
			m := &memory{tasks: 100_000, spend: spend}
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
	w, _ := newWatcher(b, &memory{tasks: 100_000}, nil)
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
