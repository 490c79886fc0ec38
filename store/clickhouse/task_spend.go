package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// TaskSpend is what one task spent in one stretch of time, as the view spend
// has it.
type TaskSpend struct {
	Task string
	// Start of the stretch: a bucket's, or, where Day is set, a day's (UTC).
	Start time.Time
	Day   bool
	// The labels of the latest bucket; where it has several, the greatest.
	Project, Repo, Kind, Issue string
	First, Last                time.Time // the first and the last bucket with spend
	TaskSums
	Models []ModelSpend
	Runs   []string // the distinct ones that are known, in no order
	Agents []SessionAgent
}

// TaskSums are sums that tasks are judged by.
type TaskSums struct {
	Requests       uint64 // of the feeds that know; 0: none does
	Input, Output  uint64 // tokens
	CacheRead      uint64
	CacheWrite     uint64
	UnpricedTokens uint64
	Cost           usage.NullNano
	Approximate    bool
	Estimated      bool
}

// ModelSpend is what was spent on one model. Where no cost is known, Cost is 0.
type ModelSpend struct {
	Model  string
	Cost   usage.Nano
	Tokens uint64
}

// SessionAgent is a subagent of a session; neither is the main agent, "".
type SessionAgent struct{ Session, Agent string }

// TaskQuery selects stretches of tasks. The zero values of all but Split select
// everything.
type TaskQuery struct {
	// Split is a bucket's start: from there on each bucket is a stretch of its
	// own; before it, the buckets of one day together are one.
	Split time.Time
	// Partly restricts the answer to Buckets, all of which must lie at Split or
	// later, and to what of Days is before Split.
	Partly        bool
	Buckets, Days []time.Time
	// Month restricts the answer to the buckets of the month that begins then.
	Month time.Time
	// Tasks restricts the answer to tasks of these names.
	Tasks []string
	// ActiveSince restricts it to tasks with spend from this bucket on; turns,
	// also to tasks with turns from then on.
	ActiveSince time.Time
}

// where is the condition but for ActiveSince, over rows whose bucket is in the
// column of this name; "" if nothing can meet it.
func (q *TaskQuery) where(bucket string) (where string, args []any) {
	where, args = "task != ''", []any{clickhouse.Named("split", q.Split)}
	if q.Partly {
		buckets := append(make([]time.Time, 0, len(q.Buckets)+len(q.Days)), q.Buckets...)
		for _, day := range q.Days {
			for b := day; b.Before(day.AddDate(0, 0, 1)) && b.Before(q.Split); b = b.Add(usage.BucketSize) {
				buckets = append(buckets, b)
			}
		}
		if len(buckets) == 0 {
			return "", nil
		}
		where += " AND " + bucket + " IN (@buckets)" // the primary key: whatever else is not read
		args = append(args, clickhouse.Named("buckets", buckets))
	}
	if !q.Month.IsZero() {
		where += " AND " + bucket + " >= @month AND " + bucket + " < @month + INTERVAL 1 MONTH"
		args = append(args, clickhouse.Named("month", q.Month))
	}
	if len(q.Tasks) > 0 {
		where += " AND task IN (@tasks)"
		args = append(args, clickhouse.Named("tasks", q.Tasks))
	}
	return where, args
}

// TaskSpend hands the stretches of tasks to use, in no order. Tasks without a
// name are left out. Part of them may have been handed over when it fails.
//
// No index leads from a task to its spend: without Partly it reads all of it.
func (s *Store) TaskSpend(ctx context.Context, q TaskQuery, use func(*TaskSpend)) error {
	where, args := q.where("time")
	if where == "" {
		return nil
	}
	if !q.ActiveSince.IsZero() {
		where += " AND task IN (SELECT task FROM spend WHERE time >= @active)"
		args = append(args, clickhouse.Named("active", q.ActiveSince))
	}
	sql := taskSpendSelect + " WHERE " + where + " GROUP BY fine, start, task"
	return s.query(ctx, "the spend of tasks", sql, args, func(rows driver.Rows) error {
		t, err := scanTaskSpend(rows)
		if err == nil {
			use(t)
		}
		return err
	})
}

// TaskMonths returns the begin of every month in which a task spent or took
// turns, in order, and perhaps of others: who wants all stretches of all tasks of
// a large ledger asks month by month.
func (s *Store) TaskMonths(ctx context.Context) ([]time.Time, error) {
	var out []time.Time
	const q = `SELECT DISTINCT toDateTime(toStartOfMonth(time), 'UTC') AS month FROM (
			SELECT time FROM spend WHERE task != ''
			UNION ALL SELECT bucket AS time FROM activity WHERE name = 'turns' AND task != ''
		) ORDER BY month`
	err := s.query(ctx, "the months of tasks", q, nil, func(rows driver.Rows) error {
		var month time.Time
		err := rows.Scan(&month)
		out = append(out, month.UTC())
		return err
	})
	return out, err
}

const taskSpendSelect = `SELECT
	time >= @split AS fine,
	if(fine, time, toStartOfDay(time, 'UTC')) AS start,
	task,
	(argMax((toString(project), toString(repo), toString(kind), issue), (time, project, repo, kind, issue)) AS labels).1,
	labels.2, labels.3, labels.4,
	min(time), max(time),
	` + taskSums + `,
	(sumMap([toString(model)], [ifNull(cost_nano, 0)],
		[input_tokens + output_tokens + cache_read_tokens + cache_write_tokens]) AS models).1,
	models.2, models.3,
	groupUniqArrayIf(run, run != ''),
	(groupUniqArrayIf((session, toString(agent)), agent != '') AS agents).1,
	agents.2
FROM spend`

const taskSums = `ifNull(sum(requests), 0), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
	sum(unpriced_tokens), sum(cost_nano), max(approximate), max(estimated)`

// scan are where taskSums go; done must follow.
func (t *TaskSums) scan() (dest []any, done func()) {
	var (
		cost                   *int64
		approximate, estimated uint8
	)
	dest = []any{
		&t.Requests, &t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.UnpricedTokens,
		&cost, &approximate, &estimated,
	}
	return dest, func() {
		t.Cost, t.Approximate, t.Estimated = usage.NullNanoOf(cost), approximate == 1, estimated == 1
	}
}

func scanTaskSpend(rows driver.Rows) (*TaskSpend, error) {
	var (
		t                TaskSpend
		fine             uint8
		models           []string
		costs            []int64
		tokens           []uint64
		sessions, agents []string
	)
	sums, done := t.scan()
	dest := []any{
		&fine, &t.Start, &t.Task, &t.Project, &t.Repo, &t.Kind, &t.Issue, &t.First, &t.Last,
	}
	dest = append(append(dest, sums...), &models, &costs, &tokens, &t.Runs, &sessions, &agents)
	if err := rows.Scan(dest...); err != nil {
		return nil, err
	}
	done()
	t.Day, t.Start, t.First, t.Last = fine == 0, t.Start.UTC(), t.First.UTC(), t.Last.UTC()
	t.Models = make([]ModelSpend, len(models))
	for i := range models {
		t.Models[i] = ModelSpend{models[i], usage.Nano(costs[i]), tokens[i]}
	}
	t.Agents = make([]SessionAgent, len(agents))
	for i := range agents {
		t.Agents[i] = SessionAgent{sessions[i], agents[i]}
	}
	return &t, nil
}
