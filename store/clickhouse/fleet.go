package clickhouse

import (
	"context"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
)

// PushedSpan is a run and the times of its first and its last push.
type PushedSpan struct {
	Run         string
	First, Last time.Time
}

// PushedSince returns up to limit runs whose pushes were derived at or after the
// server's clock since, in the order of their first push, from the one that
// follows after. Every derivation of a run's pushes writes the run's summary,
// under the clock of its beginning: its rows may become visible as much as
// [AbandonedAfter] later, so look back by that.
func (s *Store) PushedSince(ctx context.Context, since uint64, after PushedSpan, limit int) ([]PushedSpan, error) {
	const q = `SELECT run, first_seen, last_seen FROM run_summaries FINAL
		WHERE version >= @since AND (toUnixTimestamp64Milli(first_seen), run) > (@first, @run)
		ORDER BY first_seen, run LIMIT @limit`
	first := int64(-1 << 62)
	if !after.First.IsZero() {
		first = after.First.UnixMilli()
	}
	var out []PushedSpan
	args := []any{
		clickhouse.Named("since", since), clickhouse.Named("first", first), clickhouse.Named("run", after.Run), clickhouse.Named("limit", limit),
	}
	err := s.query(ctx, "pushed runs", q, args, func(rows driver.Rows) error {
		var r PushedSpan
		err := rows.Scan(&r.Run, &r.First, &r.Last)
		out = append(out, r)
		return err
	})
	return out, err
}

// Pushed is what the pushes of a run say by now, whether or not a more trusted
// feed speaks of the same.
type Pushed struct {
	Run   string
	Parts map[store.FleetLabels]PushedPart
	// LastCharge is when the latest charge was booked.
	LastCharge time.Time
}

// PushedPart is what has one combination of labels: all of it, and what was
// booked before a given time.
type PushedPart struct{ All, Old store.FleetAmounts }

// PushedTotals sums the pushes of runs: tokens as pushed, and the cost as the
// ledger counts it. Old is what was booked before cutoff. Runs are returned in
// no order, those without charges not at all.
//
// Names are returned as Postgres and Prometheus can hold them, without the bytes
// that are no text.
func (s *Store) PushedTotals(ctx context.Context, runs []PushedSpan, cutoff time.Time) ([]Pushed, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	names := make([]string, len(runs))
	from, to := runs[0].First, runs[0].Last
	for i, r := range runs {
		names[i] = r.Run
		if r.First.Before(from) {
			from = r.First
		}
		if r.Last.After(to) {
			to = r.Last
		}
	}
	// A push is booked at the arrival of a push of its run, so no charge lies
	// outside.
	const q = `SELECT fact_run, project, repo, kind, model, max(time),
			sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(ifNull(cost_nano, 0)),
			sumIf(input_tokens, old), sumIf(output_tokens, old), sumIf(cache_read_tokens, old), sumIf(cache_write_tokens, old), sumIf(ifNull(cost_nano, 0), old)
		FROM (
			SELECT fact_run, project, repo, kind, model, time, toUnixTimestamp64Milli(time) < @cutoff AS old,
				toInt64(input_tokens) AS input_tokens, toInt64(output_tokens) AS output_tokens,
				toInt64(cache_read_tokens) AS cache_read_tokens, toInt64(cache_write_tokens) AS cache_write_tokens, cost_nano
			FROM charges FINAL
			WHERE bucket >= @from AND bucket <= @to AND fact_run IN (@runs) AND feed = 'push'
		) GROUP BY fact_run, project, repo, kind, model`
	at := map[string]int{}
	var out []Pushed
	args := []any{
		clickhouse.Named("from", usage.Bucket(from)), clickhouse.Named("to", usage.Bucket(to)),
		clickhouse.Named("runs", names), clickhouse.Named("cutoff", cutoff.UnixMilli()),
	}
	err := s.query(ctx, "pushes of runs", q, args, func(rows driver.Rows) error {
		var (
			run  string
			l    store.FleetLabels
			last time.Time
			p    PushedPart
		)
		err := rows.Scan(&run, &l.Project, &l.Repo, &l.Kind, &l.Model, &last,
			&p.All[store.FleetInput], &p.All[store.FleetOutput], &p.All[store.FleetCacheRead], &p.All[store.FleetCacheWrite], &p.All[store.FleetCost],
			&p.Old[store.FleetInput], &p.Old[store.FleetOutput], &p.Old[store.FleetCacheRead], &p.Old[store.FleetCacheWrite], &p.Old[store.FleetCost])
		if err != nil {
			return err
		}
		run = text(run)
		i, ok := at[run]
		if !ok {
			i = len(out)
			at[run] = i
			out = append(out, Pushed{Run: run, Parts: map[store.FleetLabels]PushedPart{}})
		}
		l = store.FleetLabels{Project: text(l.Project), Repo: text(l.Repo), Kind: text(l.Kind), Model: text(l.Model)}
		sum := out[i].Parts[l]
		for a := range sum.All {
			sum.All[a] += p.All[a]
			sum.Old[a] += p.Old[a]
		}
		out[i].Parts[l] = sum
		if last = last.UTC(); last.After(out[i].LastCharge) {
			out[i].LastCharge = last
		}
		return nil
	})
	return out, err
}

// text drops what Postgres and Prometheus refuse in a text.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}

// ProjectCost is what a project cost.
type ProjectCost struct {
	Project string
	Cost    usage.Nano
}

// CostSince is what counts since from, the start of an hour, by project. Spend
// without a price adds nothing.
func (s *Store) CostSince(ctx context.Context, from time.Time) ([]ProjectCost, error) {
	const q = `SELECT project, sum(ifNull(cost_nano, 0)) FROM spend_hourly WHERE time >= @from GROUP BY project ORDER BY project`
	var out []ProjectCost
	err := s.query(ctx, "cost by project", q, []any{clickhouse.Named("from", from)}, func(rows driver.Rows) error {
		var (
			p    ProjectCost
			nano int64
		)
		err := rows.Scan(&p.Project, &nano)
		p.Cost = usage.Nano(nano)
		out = append(out, p)
		return err
	})
	return out, err
}
