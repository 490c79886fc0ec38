package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// TaskTurns are the turns of one task.
type TaskTurns struct {
	Turns    uint64
	ByResult map[string]uint64 // sums up to Turns
	// Last is when the last turn ended, to the arrival of the push that told of
	// it, and LastResult how. Zero: no turn is known.
	Last       time.Time
	LastResult string
}

// TaskTurns returns the turns of a task in the bucket of from and later ones.
// Only pushes count turns. No index leads from a task to its turns: it reads
// everything from from on.
func (s *Store) TaskTurns(ctx context.Context, task string, from time.Time) (TaskTurns, error) {
	const q = `SELECT toString(result), sum(count), max(time) FROM activity FINAL
		WHERE bucket >= @from AND name = 'turns' AND task = @task
		GROUP BY result ORDER BY max(time), result`
	out := TaskTurns{ByResult: map[string]uint64{}}
	if from.Before(time.Unix(0, 0)) { // a bucket is no earlier
		from = time.Unix(0, 0)
	}
	args := []any{clickhouse.Named("from", usage.Bucket(from)), clickhouse.Named("task", task)}
	err := s.query(ctx, "the turns of a task", q, args, func(rows driver.Rows) error {
		var (
			result string
			n      uint64
			last   time.Time
		)
		err := rows.Scan(&result, &n, &last)
		out.Turns += n
		out.ByResult[result] = n
		out.Last, out.LastResult = last.UTC(), result // in order: the last one stays
		return err
	})
	return out, err
}
