package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// FactHours returns the hours that hold events, or charges of events.
func (s *Store) FactHours(ctx context.Context) ([]time.Time, error) {
	const q = `SELECT DISTINCT hour FROM (
			SELECT toStartOfHour(time)::DateTime('UTC') AS hour FROM events
			UNION ALL SELECT toStartOfHour(bucket) AS hour FROM charges WHERE feed != 'push'
		) ORDER BY hour`
	var out []time.Time
	err := s.query(ctx, "hours", q, nil, func(rows driver.Rows) error {
		var t time.Time
		err := rows.Scan(&t)
		out = append(out, t.UTC())
		return err
	})
	return out, err
}

// PushedRunsAfter returns up to limit runs that have pushes, or charges of
// pushes, in order, after the given one.
func (s *Store) PushedRunsAfter(ctx context.Context, after string, limit int) ([]string, error) {
	const q = `SELECT DISTINCT run FROM (
			SELECT run FROM samples WHERE run > @after
			UNION ALL SELECT fact_run AS run FROM charges WHERE feed = 'push' AND fact_run > @after
		) ORDER BY run LIMIT @limit`
	var out []string
	args := []any{clickhouse.Named("after", after), clickhouse.Named("limit", limit)}
	err := s.query(ctx, "runs", q, args, func(rows driver.Rows) error {
		var run string
		err := rows.Scan(&run)
		out = append(out, run)
		return err
	})
	return out, err
}

// ContestedEvents returns every event whose id came with several contents,
// however far apart.
func (s *Store) ContestedEvents(ctx context.Context) ([]usage.Event, error) {
	const where = `WHERE id IN (SELECT id FROM events GROUP BY id HAVING uniqExact(content) > 1)`
	var out []usage.Event
	err := s.query(ctx, "contested events", eventSelect+where, nil, func(rows driver.Rows) error {
		e, err := scanEvent(rows)
		out = append(out, e)
		return err
	})
	return out, err
}

// AllLinks returns every link.
func (s *Store) AllLinks(ctx context.Context) ([]usage.Link, error) {
	return s.links(ctx, "WHERE 1")
}

// Grain is a grain of the rollup.
type Grain string

// The grains of the rollup.
const (
	Grain5m Grain = "5m"
	Grain1h Grain = "1h"
)

// GrainSum is what one grain says of one bucket or hour, next to the sum of the
// charges that it should equal.
type GrainSum struct {
	Grain           Grain
	Time            time.Time
	Rollup, Charges string // digests of the sums, readable
}

// GrainDifferences returns the buckets and hours in which the published sums
// differ from those of the charges.
func (s *Store) GrainDifferences(ctx context.Context) ([]GrainSum, error) {
	var out []GrainSum
	for grain, q := range map[Grain]string{
		Grain5m: grainSQL("spend", "bucket", "feed, project, repo, kind, task, issue, run, session, model, effort, agent"),
		Grain1h: grainSQL("spend_hourly", "toStartOfHour(bucket)", "feed, project, repo, kind, model, effort, agent"),
	} {
		err := s.query(ctx, "sums", q, nil, func(rows driver.Rows) error {
			g := GrainSum{Grain: grain}
			err := rows.Scan(&g.Time, &g.Rollup, &g.Charges)
			g.Time = g.Time.UTC()
			out = append(out, g)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// grainSQL compares every group of labels, summed up to one digest per time:
// cost, tokens, requests, and a hash that also sees the labels.
func grainSQL(view, bucket, labels string) string {
	digest := func(name string) string {
		return `concat('cost ', toString(sum(cost)), ' tokens ', toString(sum(tokens)), ' requests ', toString(sum(requests)),
			' labels ', hex(groupBitXor(cityHash64(` + labels + `, cost, reported, computed, savings, tokens, unpriced, requests)))) AS ` + name
	}
	const sums = `sum(cost_nano) AS cost, sum(reported_nano) AS reported, sum(computed_nano) AS computed,
		sum(savings_nano) AS savings, sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) AS tokens,
		sum(unpriced_tokens) AS unpriced, sum(requests) AS requests`
	return `SELECT t, r.digest, c.digest FROM
		(SELECT t, ` + digest("digest") + ` FROM
			(SELECT time AS t, ` + labels + `, ` + sums + ` FROM ` + view + ` GROUP BY t, ` + labels + `) GROUP BY t) AS r
		FULL JOIN
		(SELECT t, ` + digest("digest") + ` FROM
			(SELECT ` + bucket + ` AS t, ` + labels + `, ` + sums + ` FROM charges FINAL WHERE counted GROUP BY t, ` + labels + `) GROUP BY t) AS c
		USING (t) WHERE r.digest != c.digest ORDER BY t`
}
