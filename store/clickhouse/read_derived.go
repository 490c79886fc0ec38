package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const chargeSelect = `SELECT fact_run, id, time, feed, project, repo, kind, task, issue, run, session, model, effort, agent,
	requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_5m_tokens,
	cache_write_1h_tokens, web_searches, unpriced_tokens, reported_nano, computed_nano, cost_nano, savings_nano,
	approximate, estimated, counted, price_row FROM charges FINAL `

// PushedCharges returns the charges of the pushes of runs in buckets from from on.
func (s *Store) PushedCharges(ctx context.Context, runs []string, from time.Time) ([]usage.Charge, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	const where = `WHERE bucket >= @from AND fact_run IN (@runs) AND feed = 'push'`
	return s.charges(ctx, where, clickhouse.Named("from", usage.Bucket(from)), clickhouse.Named("runs", runs))
}

// ChargesBetween returns the charges of all feeds in buckets of [from, to), by id.
func (s *Store) ChargesBetween(ctx context.Context, from, to time.Time) ([]usage.Charge, error) {
	const where = `WHERE bucket >= @from AND bucket < @to`
	return s.charges(ctx, where, clickhouse.Named("from", from), clickhouse.Named("to", to))
}

func (s *Store) charges(ctx context.Context, where string, args ...any) ([]usage.Charge, error) {
	var out []usage.Charge
	err := s.query(ctx, "charges", chargeSelect+where, args, func(rows driver.Rows) error {
		c, err := scanCharge(rows)
		out = append(out, c)
		return err
	})
	return out, err
}

func scanCharge(rows driver.Rows) (usage.Charge, error) {
	var (
		c                                   usage.Charge
		id                                  uuid.UUID
		feed                                string
		requests                            *uint64
		reported, computed, cost, savings   *int64
		approximate, estimated, countedFlag uint8
	)
	l, t := &c.Labels, &c.Tokens
	err := rows.Scan(&c.FactRun, &id, &c.Time, &feed,
		&l.Project, &l.Repo, &l.Kind, &l.Task, &l.Issue, &l.Run, &l.Session, &l.Model, &l.Effort, &l.Agent,
		&requests, &t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.CacheWrite5m, &t.CacheWrite1h,
		&c.WebSearches, &c.UnpricedTokens, &reported, &computed, &cost, &savings,
		&approximate, &estimated, &countedFlag, &c.PriceRow)
	c.ID, c.Feed, c.Time = usage.ID(id), usage.Feed(feed), c.Time.UTC()
	if requests != nil {
		c.Requests = *requests
	}
	c.Reported, c.Computed = usage.NullNanoOf(reported), usage.NullNanoOf(computed)
	c.Cost, c.Savings = usage.NullNanoOf(cost), usage.NullNanoOf(savings)
	c.Approximate, c.Estimated, c.Counted = approximate == 1, estimated == 1, countedFlag == 1
	return c, err
}

// PushedActivity returns the activity of runs in buckets from from on.
func (s *Store) PushedActivity(ctx context.Context, runs []string, from time.Time) ([]usage.Activity, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	const q = `SELECT fact_run, id, time, feed, project, repo, kind, task, issue, run, session, effort,
		name, result, tool, outcome, count, seconds, bounds, buckets
		FROM activity FINAL WHERE bucket >= @from AND fact_run IN (@runs)`
	var out []usage.Activity
	args := []any{clickhouse.Named("from", usage.Bucket(from)), clickhouse.Named("runs", runs)}
	err := s.query(ctx, "activity", q, args, func(rows driver.Rows) error {
		var (
			a          usage.Activity
			id         uuid.UUID
			feed, name string
		)
		l := &a.Labels
		err := rows.Scan(&a.FactRun, &id, &a.Time, &feed, &l.Project, &l.Repo, &l.Kind, &l.Task, &l.Issue, &l.Run,
			&l.Session, &l.Effort, &name, &a.Result, &a.Tool, &a.Outcome, &a.Count, &a.Seconds, &a.Bounds, &a.Buckets)
		if len(a.Bounds) == 0 {
			a.Bounds, a.Buckets = nil, nil // as derived: only durations have any
		}
		a.ID, a.Feed, a.Name, a.Time = usage.ID(id), usage.Feed(feed), usage.ActivityName(name), a.Time.UTC()
		out = append(out, a)
		return err
	})
	return out, err
}
