package clickhouse

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Derived are derived rows to write under one version: the server's clock at
// the time before the facts were read that they follow from. Gone are rows
// that no longer follow from the facts.
type Derived struct {
	Version      uint64
	Charges      []usage.Charge
	GoneCharges  []usage.Charge
	Activity     []usage.Activity
	GoneActivity []usage.Activity
	Summaries    []usage.RunSummary
}

// AppendDerived writes derived rows. Rows of a higher version replace those
// of a lower one, so a late writer cannot undo a newer derivation. The caller
// marks the buckets before and after: see [Store.OpenMarks].
func (s *Store) AppendDerived(ctx context.Context, d *Derived) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		rows := versions(d.Charges, d.GoneCharges)
		return insertBlocks(gctx, s, "charges", chargeColumns(d.Version), rows, func(c *change[usage.Charge]) time.Time { return c.row.Time })
	})
	g.Go(func() error {
		rows := versions(d.Activity, d.GoneActivity)
		return insertBlocks(gctx, s, "activity", activityColumns(d.Version), rows, func(a *change[usage.Activity]) time.Time { return a.row.Time })
	})
	g.Go(func() error { return insert(gctx, s, "run_summaries", summaryColumns(d.Version), d.Summaries) })
	return g.Wait()
}

// change is a derived row to write, or to write as deleted.
type change[T any] struct {
	row     *T
	deleted uint8
}

// versions puts rows that go before those that come, so that both reach the
// table in one block where they can: a charge that moves is never seen twice.
func versions[T any](rows, gone []T) []change[T] {
	out := make([]change[T], 0, len(rows)+len(gone))
	for i := range gone {
		out = append(out, change[T]{&gone[i], 1})
	}
	for i := range rows {
		out = append(out, change[T]{&rows[i], 0})
	}
	return out
}

func chargeColumns(version uint64) []column[change[usage.Charge]] {
	type c = change[usage.Charge]
	return []column[c]{
		each("bucket", func(r *c) time.Time { return r.row.Bucket() }),
		each("fact_run", func(r *c) string { return r.row.FactRun }),
		id("id", func(r *c) usage.ID { return r.row.ID }),
		constant[c]("version", version),
		each("deleted", func(r *c) uint8 { return r.deleted }),
		each("time", func(r *c) time.Time { return r.row.Time }),
		each("feed", func(r *c) string { return string(r.row.Feed) }),
		each("project", func(r *c) string { return r.row.Labels.Project }),
		each("repo", func(r *c) string { return r.row.Labels.Repo }),
		each("kind", func(r *c) string { return r.row.Labels.Kind }),
		each("task", func(r *c) string { return r.row.Labels.Task }),
		each("issue", func(r *c) string { return r.row.Labels.Issue }),
		each("run", func(r *c) string { return r.row.Labels.Run }),
		each("session", func(r *c) string { return r.row.Labels.Session }),
		each("model", func(r *c) string { return r.row.Labels.Model }),
		each("effort", func(r *c) string { return r.row.Labels.Effort }),
		each("agent", func(r *c) string { return r.row.Labels.Agent }),
		each("requests", func(r *c) *uint64 {
			if r.row.Requests == 0 {
				return nil
			}
			return &r.row.Requests
		}),
		each("input_tokens", func(r *c) uint64 { return r.row.Tokens.Input }),
		each("output_tokens", func(r *c) uint64 { return r.row.Tokens.Output }),
		each("cache_read_tokens", func(r *c) uint64 { return r.row.Tokens.CacheRead }),
		each("cache_write_tokens", func(r *c) uint64 { return r.row.Tokens.CacheWrite }),
		each("cache_write_5m_tokens", func(r *c) uint64 { return r.row.Tokens.CacheWrite5m }),
		each("cache_write_1h_tokens", func(r *c) uint64 { return r.row.Tokens.CacheWrite1h }),
		each("web_searches", func(r *c) uint64 { return r.row.WebSearches }),
		each("unpriced_tokens", func(r *c) uint64 { return r.row.UnpricedTokens }),
		money("reported_nano", func(r *c) usage.NullNano { return r.row.Reported }),
		money("computed_nano", func(r *c) usage.NullNano { return r.row.Computed }),
		money("cost_nano", func(r *c) usage.NullNano { return r.row.Cost }),
		money("savings_nano", func(r *c) usage.NullNano { return r.row.Savings }),
		each("approximate", func(r *c) uint8 { return asFlag(r.row.Approximate) }),
		each("estimated", func(r *c) uint8 { return asFlag(r.row.Estimated) }),
		each("counted", func(r *c) uint8 { return asFlag(r.row.Counted) }),
		each("price_row", func(r *c) string { return r.row.PriceRow }),
	}
}

func activityColumns(version uint64) []column[change[usage.Activity]] {
	type a = change[usage.Activity]
	return []column[a]{
		each("bucket", func(r *a) time.Time { return r.row.Bucket() }),
		each("fact_run", func(r *a) string { return r.row.FactRun }),
		id("id", func(r *a) usage.ID { return r.row.ID }),
		constant[a]("version", version),
		each("deleted", func(r *a) uint8 { return r.deleted }),
		each("time", func(r *a) time.Time { return r.row.Time }),
		each("feed", func(r *a) string { return string(r.row.Feed) }),
		each("project", func(r *a) string { return r.row.Labels.Project }),
		each("repo", func(r *a) string { return r.row.Labels.Repo }),
		each("kind", func(r *a) string { return r.row.Labels.Kind }),
		each("task", func(r *a) string { return r.row.Labels.Task }),
		each("issue", func(r *a) string { return r.row.Labels.Issue }),
		each("run", func(r *a) string { return r.row.Labels.Run }),
		each("session", func(r *a) string { return r.row.Labels.Session }),
		each("effort", func(r *a) string { return r.row.Labels.Effort }),
		each("name", func(r *a) string { return string(r.row.Name) }),
		each("result", func(r *a) string { return r.row.Result }),
		each("tool", func(r *a) string { return r.row.Tool }),
		each("outcome", func(r *a) string { return r.row.Outcome }),
		each("count", func(r *a) uint64 { return r.row.Count }),
		each("seconds", func(r *a) float64 { return r.row.Seconds }),
		each("bounds", func(r *a) []float64 { return r.row.Bounds }),
		each("buckets", func(r *a) []uint64 { return r.row.Buckets }),
	}
}

func summaryColumns(version uint64) []column[usage.RunSummary] {
	type s = usage.RunSummary
	return []column[s]{
		each("run", func(r *s) string { return r.Run }),
		constant[s]("version", version),
		each("pod", func(r *s) string { return r.Pod }),
		each("project", func(r *s) string { return r.Labels.Project }),
		each("repo", func(r *s) string { return r.Labels.Repo }),
		each("kind", func(r *s) string { return r.Labels.Kind }),
		each("task", func(r *s) string { return r.Labels.Task }),
		each("issue", func(r *s) string { return r.Labels.Issue }),
		each("session", func(r *s) string { return r.Labels.Session }),
		each("effort", func(r *s) string { return r.Labels.Effort }),
		each("lives", func(r *s) uint64 { return r.Lives }),
		each("first_seen", func(r *s) time.Time { return r.FirstSeen }),
		each("last_seen", func(r *s) time.Time { return r.LastSeen }),
		each("ended", func(r *s) *time.Time {
			if r.Ended.IsZero() {
				return nil
			}
			return &r.Ended
		}),
	}
}
