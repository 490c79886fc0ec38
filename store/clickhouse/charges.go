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
	g.Go(func() error { return s.appendCharges(gctx, d.Version, 0, d.Charges) })
	g.Go(func() error { return s.appendCharges(gctx, d.Version, 1, d.GoneCharges) })
	g.Go(func() error { return s.appendActivity(gctx, d.Version, 0, d.Activity) })
	g.Go(func() error { return s.appendActivity(gctx, d.Version, 1, d.GoneActivity) })
	g.Go(func() error { return insert(gctx, s, "run_summaries", summaryColumns(d.Version), d.Summaries) })
	return g.Wait()
}

func (s *Store) appendCharges(ctx context.Context, version uint64, deleted uint8, rows []usage.Charge) error {
	return insertBlocks(ctx, s, "charges", chargeColumns(version, deleted), rows, func(c *usage.Charge) time.Time { return c.Time })
}

func (s *Store) appendActivity(ctx context.Context, version uint64, deleted uint8, rows []usage.Activity) error {
	return insertBlocks(ctx, s, "activity", activityColumns(version, deleted), rows, func(a *usage.Activity) time.Time { return a.Time })
}

func chargeColumns(version uint64, deleted uint8) []column[usage.Charge] {
	type c = usage.Charge
	return []column[c]{
		each("bucket", func(r *c) time.Time { return r.Bucket() }),
		each("fact_run", func(r *c) string { return r.FactRun }),
		id("id", func(r *c) usage.ID { return r.ID }),
		constant[c]("version", version),
		constant[c]("deleted", deleted),
		each("time", func(r *c) time.Time { return r.Time }),
		each("feed", func(r *c) string { return string(r.Feed) }),
		each("project", func(r *c) string { return r.Labels.Project }),
		each("repo", func(r *c) string { return r.Labels.Repo }),
		each("kind", func(r *c) string { return r.Labels.Kind }),
		each("task", func(r *c) string { return r.Labels.Task }),
		each("issue", func(r *c) string { return r.Labels.Issue }),
		each("run", func(r *c) string { return r.Labels.Run }),
		each("session", func(r *c) string { return r.Labels.Session }),
		each("model", func(r *c) string { return r.Labels.Model }),
		each("effort", func(r *c) string { return r.Labels.Effort }),
		each("agent", func(r *c) string { return r.Labels.Agent }),
		each("requests", func(r *c) *uint64 {
			if r.Requests == 0 {
				return nil
			}
			return &r.Requests
		}),
		each("input_tokens", func(r *c) uint64 { return r.Tokens.Input }),
		each("output_tokens", func(r *c) uint64 { return r.Tokens.Output }),
		each("cache_read_tokens", func(r *c) uint64 { return r.Tokens.CacheRead }),
		each("cache_write_tokens", func(r *c) uint64 { return r.Tokens.CacheWrite }),
		each("cache_write_5m_tokens", func(r *c) uint64 { return r.Tokens.CacheWrite5m }),
		each("cache_write_1h_tokens", func(r *c) uint64 { return r.Tokens.CacheWrite1h }),
		each("web_searches", func(r *c) uint64 { return r.WebSearches }),
		each("unpriced_tokens", func(r *c) uint64 { return r.UnpricedTokens }),
		money("reported_nano", func(r *c) usage.NullNano { return r.Reported }),
		money("computed_nano", func(r *c) usage.NullNano { return r.Computed }),
		money("cost_nano", func(r *c) usage.NullNano { return r.Cost }),
		money("savings_nano", func(r *c) usage.NullNano { return r.Savings }),
		each("approximate", func(r *c) uint8 { return asFlag(r.Approximate) }),
		each("estimated", func(r *c) uint8 { return asFlag(r.Estimated) }),
		each("counted", func(r *c) uint8 { return asFlag(r.Counted) }),
		each("price_row", func(r *c) string { return r.PriceRow }),
	}
}

func activityColumns(version uint64, deleted uint8) []column[usage.Activity] {
	type a = usage.Activity
	return []column[a]{
		each("bucket", func(r *a) time.Time { return r.Bucket() }),
		each("fact_run", func(r *a) string { return r.FactRun }),
		id("id", func(r *a) usage.ID { return r.ID }),
		constant[a]("version", version),
		constant[a]("deleted", deleted),
		each("time", func(r *a) time.Time { return r.Time }),
		each("feed", func(r *a) string { return string(r.Feed) }),
		each("project", func(r *a) string { return r.Labels.Project }),
		each("repo", func(r *a) string { return r.Labels.Repo }),
		each("kind", func(r *a) string { return r.Labels.Kind }),
		each("task", func(r *a) string { return r.Labels.Task }),
		each("issue", func(r *a) string { return r.Labels.Issue }),
		each("run", func(r *a) string { return r.Labels.Run }),
		each("session", func(r *a) string { return r.Labels.Session }),
		each("effort", func(r *a) string { return r.Labels.Effort }),
		each("name", func(r *a) string { return string(r.Name) }),
		each("result", func(r *a) string { return r.Result }),
		each("tool", func(r *a) string { return r.Tool }),
		each("outcome", func(r *a) string { return r.Outcome }),
		each("count", func(r *a) uint64 { return r.Count }),
		each("seconds", func(r *a) float64 { return r.Seconds }),
		each("bounds", func(r *a) []float64 { return r.Bounds }),
		each("buckets", func(r *a) []uint64 { return r.Buckets }),
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
