package clickhouse

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Quiet says when a bucket may be closed: after it is over and no mark of it
// has changed for Settled, or, if it is not over, for Idle. Closing too early
// is never wrong, only wasted: the next charge makes the bucket dirty again.
type Quiet struct{ Settled, Idle time.Duration }

// CloseBuckets sums up to limit dirty buckets whose marks are all complete
// and returns how many it closed.
//
// A bucket's row is written whole under a version taken before its marks were
// read, so the highest version includes every charge of every mark that any
// closer has processed: two closers at once are harmless.
func (s *Store) CloseBuckets(ctx context.Context, q Quiet, limit int) (int, error) {
	version, err := s.Clock(ctx)
	if err != nil {
		return 0, err
	}
	const due = `SELECT bucket, groupArrayIf(bucket, state < 2), groupArrayIf(mark, state < 2)
		FROM marks FINAL GROUP BY bucket
		HAVING min(state) < 2
			AND countIf(state = 0 AND changed > now64(3) - toIntervalSecond(@abandoned)) = 0
			AND (bucket + INTERVAL 5 MINUTE < now() AND max(changed) < now64(3) - toIntervalMillisecond(@settled)
				OR max(changed) < now64(3) - toIntervalMillisecond(@idle))
		ORDER BY bucket LIMIT @limit`
	buckets, marks, err := s.dueMarks(ctx, due,
		clickhouse.Named("abandoned", int64(AbandonedAfter.Seconds())),
		clickhouse.Named("settled", q.Settled.Milliseconds()), clickhouse.Named("idle", q.Idle.Milliseconds()),
		clickhouse.Named("limit", limit))
	if err != nil || len(buckets) == 0 {
		return 0, err
	}
	if err := s.conn.Exec(ctx, closeBucketsSQL, clickhouse.Named("version", version), clickhouse.Named("buckets", buckets)); err != nil {
		return 0, fmt.Errorf("summing buckets: %w", err)
	}
	return len(buckets), s.setMarks(ctx, markClosed, marks)
}

// CloseHours sums up to limit hours, all of whose buckets are closed, and
// returns how many it closed.
func (s *Store) CloseHours(ctx context.Context, q Quiet, limit int) (int, error) {
	version, err := s.Clock(ctx)
	if err != nil {
		return 0, err
	}
	const due = `SELECT toStartOfHour(bucket) AS hour, groupArrayIf(bucket, state < 3), groupArrayIf(mark, state < 3)
		FROM marks FINAL GROUP BY hour
		HAVING min(state) = 2
			AND (hour + INTERVAL 1 HOUR < now() AND max(changed) < now64(3) - toIntervalMillisecond(@settled)
				OR max(changed) < now64(3) - toIntervalMillisecond(@idle))
		ORDER BY hour LIMIT @limit`
	hours, marks, err := s.dueMarks(ctx, due, clickhouse.Named("settled", q.Settled.Milliseconds()),
		clickhouse.Named("idle", q.Idle.Milliseconds()), clickhouse.Named("limit", limit))
	if err != nil || len(hours) == 0 {
		return 0, err
	}
	if err := s.conn.Exec(ctx, closeHoursSQL, clickhouse.Named("version", version), clickhouse.Named("hours", hours)); err != nil {
		return 0, fmt.Errorf("summing hours: %w", err)
	}
	return len(hours), s.setMarks(ctx, markRolled, marks)
}

// A closed bucket is one row of parallel arrays. The sums go through an array
// of tuples because groupArray skips nulls, which would shift the arrays
// against each other. A bucket whose charges all vanished gets an empty row.
const (
	closeBucketsSQL = `INSERT INTO spend_5m
		SELECT bucket, @version,
			sums.1, sums.2, sums.3, sums.4, sums.5, sums.6, sums.7, sums.8, sums.9, sums.10, sums.11,
			sums.12, sums.13, sums.14, sums.15, sums.16, sums.17, sums.18, sums.19, sums.20,
			sums.21, sums.22, sums.23, sums.24, sums.25, sums.26
		FROM (
			SELECT bucket, groupArray((feed, project, repo, kind, task, issue, run, session, model, effort, agent,
				` + sumNames + `)) AS sums
			FROM (
				SELECT bucket, feed, project, repo, kind, task, issue, run, session, model, effort, agent,
					` + sumExpressions + `
				FROM charges FINAL WHERE bucket IN (@buckets) AND counted
				GROUP BY bucket, feed, project, repo, kind, task, issue, run, session, model, effort, agent
			) GROUP BY bucket
			UNION ALL
			SELECT bucket, [] AS sums FROM (SELECT arrayJoin(@buckets)::DateTime('UTC') AS bucket)
			WHERE bucket NOT IN (SELECT bucket FROM charges FINAL WHERE bucket IN (@buckets) AND counted)
		)`

	closeHoursSQL = `INSERT INTO spend_1h
		SELECT hour, @version,
			sums.1, sums.2, sums.3, sums.4, sums.5, sums.6, sums.7, sums.8, sums.9, sums.10, sums.11,
			sums.12, sums.13, sums.14, sums.15, sums.16, sums.17, sums.18, sums.19, sums.20, sums.21, sums.22
		FROM (
			SELECT hour, groupArray((feed, project, repo, kind, model, effort, agent,
				` + sumNames + `)) AS sums
			FROM (
				SELECT toStartOfHour(bucket) AS hour, row.feed AS feed, row.project AS project, row.repo AS repo,
					row.kind AS kind, row.model AS model, row.effort AS effort, row.agent AS agent,
					` + sumRowExpressions + `
				FROM spend_5m FINAL ARRAY JOIN row WHERE toStartOfHour(bucket) IN (@hours)
				GROUP BY hour, feed, project, repo, kind, model, effort, agent
			) GROUP BY hour
			UNION ALL
			SELECT hour, [] AS sums FROM (SELECT arrayJoin(@hours)::DateTime('UTC') AS hour)
			WHERE hour NOT IN (
				SELECT toStartOfHour(bucket) FROM spend_5m FINAL
				WHERE toStartOfHour(bucket) IN (@hours) AND notEmpty(row.feed)
			)
		)`

	sumNames = `requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_5m_tokens,
		cache_write_1h_tokens, web_searches, unpriced_tokens, reported_nano, computed_nano, cost_nano, savings_nano,
		approximate, estimated`

	sumExpressions = `sum(charges.requests) AS requests, sum(charges.input_tokens) AS input_tokens,
		sum(charges.output_tokens) AS output_tokens, sum(charges.cache_read_tokens) AS cache_read_tokens,
		sum(charges.cache_write_tokens) AS cache_write_tokens,
		sum(charges.cache_write_5m_tokens) AS cache_write_5m_tokens,
		sum(charges.cache_write_1h_tokens) AS cache_write_1h_tokens, sum(charges.web_searches) AS web_searches,
		sum(charges.unpriced_tokens) AS unpriced_tokens, sum(charges.reported_nano) AS reported_nano,
		sum(charges.computed_nano) AS computed_nano, sum(charges.cost_nano) AS cost_nano,
		sum(charges.savings_nano) AS savings_nano, max(charges.approximate) AS approximate,
		max(charges.estimated) AS estimated`

	sumRowExpressions = `sum(row.requests) AS requests, sum(row.input_tokens) AS input_tokens,
		sum(row.output_tokens) AS output_tokens, sum(row.cache_read_tokens) AS cache_read_tokens,
		sum(row.cache_write_tokens) AS cache_write_tokens, sum(row.cache_write_5m_tokens) AS cache_write_5m_tokens,
		sum(row.cache_write_1h_tokens) AS cache_write_1h_tokens, sum(row.web_searches) AS web_searches,
		sum(row.unpriced_tokens) AS unpriced_tokens, sum(row.reported_nano) AS reported_nano,
		sum(row.computed_nano) AS computed_nano, sum(row.cost_nano) AS cost_nano, sum(row.savings_nano) AS savings_nano,
		max(row.approximate) AS approximate, max(row.estimated) AS estimated`
)
