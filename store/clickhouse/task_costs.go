package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// TaskCost is what one task cost, for those who choose a ceiling.
type TaskCost struct {
	Task, Kind, Project  string // those of its latest bucket
	Cost                 usage.NullNano
	Tokens, OutputTokens uint64
	UnpricedTokens       uint64
	Runs                 uint64 // distinct ones that are known
	// The most of any hour, which is 13 buckets in a row: what a ceiling per
	// hour is held against when a bucket ends.
	HourCost                     usage.Nano
	HourTokens, HourOutputTokens uint64
}

// TaskCosts returns what each task that spent at since or later cost, its
// spend before since included, by name. It returns [ErrTooManyRows] if there
// are more tasks than fit in an answer. It reads all spend.
func (s *Store) TaskCosts(ctx context.Context, since time.Time) ([]TaskCost, error) {
	const q = `SELECT task, argMax(latest, time).1, argMax(latest, time).2,
			sum(cost), sum(tokens), sum(output), sum(unpriced), uniqExactArray(runs),
			max(ifNull(hour_cost, 0)), max(hour_tokens), max(hour_output)
		FROM (
			SELECT *, sum(cost) OVER hour AS hour_cost, sum(tokens) OVER hour AS hour_tokens, sum(output) OVER hour AS hour_output
			FROM (
				SELECT task, time, argMax((toString(kind), toString(project)), (project, repo, kind, issue)) AS latest,
					sum(cost_nano) AS cost,
					sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) AS tokens,
					sum(output_tokens) AS output, sum(unpriced_tokens) AS unpriced,
					groupUniqArrayIf(run, run != '') AS runs
				FROM spend
				WHERE task != '' AND task IN (SELECT task FROM spend WHERE time >= @since)
				GROUP BY task, time
			)
			WINDOW hour AS (PARTITION BY task ORDER BY toUnixTimestamp(time) RANGE BETWEEN 3600 PRECEDING AND CURRENT ROW)
		)
		GROUP BY task ORDER BY task LIMIT @limit`
	var out []TaskCost
	args := []any{clickhouse.Named("since", usage.Bucket(since)), clickhouse.Named("limit", maxTasks+1)}
	err := s.query(ctx, "the costs of tasks", q, args, func(rows driver.Rows) error {
		var (
			t              TaskCost
			cost           *int64
			hourCost       int64
			tokens, output = &t.HourTokens, &t.HourOutputTokens
		)
		err := rows.Scan(&t.Task, &t.Kind, &t.Project, &cost, &t.Tokens, &t.OutputTokens, &t.UnpricedTokens, &t.Runs, &hourCost, tokens, output)
		t.Cost, t.HourCost = usage.NullNanoOf(cost), usage.Nano(hourCost)
		out = append(out, t)
		return err
	})
	if len(out) > maxTasks {
		return nil, ErrTooManyRows
	}
	return out, err
}

// maxTasks bounds an answer of TaskCosts: about 200 MB.
const maxTasks = 1_000_000

// Kinds returns every kind that ever spent, in order; "", the kind of what says
// none, is left out.
func (s *Store) Kinds(ctx context.Context) ([]string, error) {
	var out []string
	const q = `SELECT DISTINCT toString(kind) AS name FROM spend_hourly WHERE kind != '' ORDER BY name`
	err := s.query(ctx, "kinds", q, nil, func(rows driver.Rows) error {
		var kind string
		err := rows.Scan(&kind)
		out = append(out, kind)
		return err
	})
	return out, err
}
