package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// TaskTurns are the turns of one task in one stretch of time, as the view turns
// has them. Only pushes count turns.
type TaskTurns struct {
	Task    string
	Start   time.Time // as in [TaskSpend]
	Day     bool
	Results []ResultTurns // in order
	// Last is when the last turn ended, to the arrival of the push that told of
	// it, and LastResult how; of several results at once, the greatest.
	Last       time.Time
	LastResult string
}

// ResultTurns is how many turns ended in one way.
type ResultTurns struct {
	Result string
	Turns  uint64
}

// TaskTurns hands the turns of tasks to use, in no order, as [Store.TaskSpend]
// does what they spent.
func (s *Store) TaskTurns(ctx context.Context, q TaskQuery, use func(*TaskTurns)) error {
	where, args := q.where("bucket")
	if where == "" {
		return nil
	}
	if !q.ActiveSince.IsZero() {
		where += ` AND (task IN (SELECT task FROM spend WHERE time >= @active)
			OR task IN (SELECT task FROM activity WHERE name = 'turns' AND bucket >= @active))`
		args = append(args, clickhouse.Named("active", q.ActiveSince))
	}
	sql := `SELECT task, ` + turnSums + `, bucket >= @split AS fine, if(fine, bucket, toStartOfDay(bucket, 'UTC')) AS start
		FROM activity FINAL WHERE name = 'turns' AND ` + where + ` GROUP BY fine, start, task`
	return s.query(ctx, "the turns of tasks", sql, args, func(rows driver.Rows) error {
		var fine uint8
		t, err := scanTaskTurns(rows, &fine)
		if err == nil {
			t.Day = fine == 0
			use(t)
		}
		return err
	})
}

// TaskTurnTotals hands all turns of every task with a name, or only of those in
// names if it is not empty, to use, in no order. They have no Start. It reads all
// turns.
func (s *Store) TaskTurnTotals(ctx context.Context, names []string, use func(*TaskTurns)) error {
	where, args := "task != ''", []any{}
	if len(names) > 0 {
		where, args = "task IN (@tasks)", append(args, clickhouse.Named("tasks", names))
	}
	sql := "SELECT task, " + turnSums + " FROM activity FINAL WHERE name = 'turns' AND " + where + " GROUP BY task"
	return s.query(ctx, "the turns of tasks", sql, args, func(rows driver.Rows) error {
		t, err := scanTaskTurns(rows, nil)
		if err == nil {
			use(t)
		}
		return err
	})
}

const turnSums = `(sumMap([toString(result)], [count]) AS results).1, results.2,
	(max((activity.time, toString(result))) AS last).1, last.2`

// scanTaskTurns scans also the stretch unless fine is nil.
func scanTaskTurns(rows driver.Rows, fine *uint8) (*TaskTurns, error) {
	var (
		t       TaskTurns
		results []string
		counts  []uint64
	)
	dest := []any{&t.Task, &results, &counts, &t.Last, &t.LastResult}
	if fine != nil {
		dest = append(dest, fine, &t.Start)
	}
	if err := rows.Scan(dest...); err != nil {
		return nil, err
	}
	t.Start, t.Last = t.Start.UTC(), t.Last.UTC()
	t.Results = make([]ResultTurns, len(results))
	for i := range results {
		t.Results[i] = ResultTurns{results[i], counts[i]}
	}
	return &t, nil
}
