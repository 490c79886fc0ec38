package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// TaskTotal is what a task spent in all.
type TaskTotal struct {
	Task string
	TaskSums
	Runs uint64    // distinct ones that are known
	Last time.Time // the last bucket with spend
}

// TaskTotals hands the total of every task with a name, or only of those in
// names if it is not empty, to use, in no order. It reads all spend.
func (s *Store) TaskTotals(ctx context.Context, names []string, use func(*TaskTotal)) error {
	where, args := "task != ''", []any{}
	if len(names) > 0 {
		where, args = "task IN (@tasks)", append(args, clickhouse.Named("tasks", names))
	}
	sql := "SELECT task, " + taskSums + ", uniqExactIf(run, run != ''), max(time) FROM spend WHERE " + where + " GROUP BY task"
	return s.query(ctx, "the totals of tasks", sql, args, func(rows driver.Rows) error {
		var t TaskTotal
		sums, done := t.scan()
		if err := rows.Scan(append(append([]any{&t.Task}, sums...), &t.Runs, &t.Last)...); err != nil {
			return err
		}
		done()
		t.Last = t.Last.UTC()
		use(&t)
		return nil
	})
}
