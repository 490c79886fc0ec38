package api

import (
	"strconv"
	"time"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/alerts/evaluate"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

func wireTask(s *evaluate.Standing) wire.Task {
	return wire.Task{
		Task: s.Name, Project: s.Project, Repo: s.Repo, Kind: s.Kind, Issue: s.Issue, Model: s.Model,
		State: string(s.State), TaskAmounts: wireAmounts(&s.Total, s.Runs),
		UnpricedTokens: s.Total.UnpricedTokens, Subagents: s.Subagents, Approximate: s.Total.Approximate, Estimated: s.Total.Estimated,
		Hour: wireAmounts(&s.Hour, s.HourRuns), CostPerHourUSD: s.PerHour.String(),
		FirstSpendAt: s.FirstSpend.UTC(), LastSpendAt: s.LastSpend.UTC(), EndedAt: orNull(s.Ended), Quiet: s.Quiet,
		Ceiling: wireCeiling(s), LimitReachedAt: orNull(s.ReachedAt), Turns: wireTurns(&s.Turns), AsOf: s.At.UTC(),
	}
}

// wireTurns are turns, or nil where no feed counts them.
func wireTurns(t *tasks.Turns) *wire.TaskTurns {
	if t.Count == 0 {
		return nil
	}
	return &wire.TaskTurns{
		Count: t.Count, LastAt: orNull(t.Last), LastResult: t.LastResult,
		ByResult: each(t.ByResult, func(r *tasks.TurnResult) wire.TurnResult { return wire.TurnResult(*r) }),
	}
}

func wireAmounts(a *tasks.Amounts, runs uint64) wire.TaskAmounts {
	return wire.TaskAmounts{CostUSD: dollars(a.Cost), Tokens: a.Tokens, OutputTokens: a.OutputTokens, Runs: runs}
}

func wireCeiling(s *evaluate.Standing) wire.TaskCeiling {
	out := wire.TaskCeiling{Exempt: s.Override != nil && s.Override.Exempt, Limits: []wire.TaskLimit{}}
	for m := range s.Measures() {
		out.Limits = append(out.Limits, wire.TaskLimit{
			Limit: m.Dimension.String(), Value: amount(m.Dimension, m.Value), Of: amount(m.Dimension, m.Limit.Value),
			Percent: m.Percent(), Source: m.Limit.Source,
		})
	}
	if l := s.Ceiling.Of(ceiling.TaskCost).Value; l > 0 {
		usd := usage.Nano(l).String()
		out.USD = &usd
	}
	out.Tokens, out.OutputTokens = limitOf(s, ceiling.TaskTokens), limitOf(s, ceiling.TaskOutputTokens)
	return out
}

func limitOf(s *evaluate.Standing, d ceiling.Dimension) *uint64 {
	if l := s.Ceiling.Of(d).Value; l > 0 {
		return &l
	}
	return nil
}

// amount is a value in dollars, or a count.
func amount(d ceiling.Dimension, v uint64) string {
	if d.Money() {
		return usage.Nano(v).String()
	}
	return strconv.FormatUint(v, 10)
}

func wireOverride(o *store.CeilingOverride) wire.CeilingOverride {
	return wire.CeilingOverride{
		Task: o.Task, USD: dollars(usage.NullNanoOf(o.CostNano)), Tokens: o.Tokens, OutputTokens: o.OutputTokens, Exempt: o.Exempt,
		SetBy: o.SetBy, SetAt: o.SetAt.UTC(), RequestID: o.RequestID,
	}
}

// orNull is a time, or null where there is none.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
