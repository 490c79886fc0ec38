package derive

import (
	"cmp"
	"slices"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Event derives the charge of one event. link is the latest link of its run,
// or of its session if it names no run; nil if there is none.
func (d *Deriver) Event(e *usage.Event, link *usage.Link) usage.Charge {
	c := usage.Charge{
		// Not the id: one that is used anew after the window names two calls.
		ID:          e.Content,
		FactRun:     e.Labels.Run,
		Feed:        e.Feed,
		Time:        e.Time,
		Labels:      e.Labels,
		Requests:    1,
		Tokens:      e.Tokens,
		WebSearches: e.WebSearches,
		Reported:    e.Reported,
		Counted:     true,
	}
	if link != nil {
		c.Labels = fill(c.Labels, link)
	}
	d.price(&c, pricing.Usage{
		Model: e.Labels.Model, Time: e.Time, Tokens: e.Tokens, WebSearches: e.WebSearches,
		Speed: e.Speed, Batch: e.Batch, InferenceGeo: e.InferenceGeo, WholeRequest: true,
	})
	return c
}

// price fills the money of c: what counts is the computed cost, else the
// reported one, marked as an estimate.
func (d *Deriver) price(c *usage.Charge, u pricing.Usage) {
	p := d.prices.Price(u)
	c.Computed, c.Savings, c.PriceRow = p.Computed, p.Savings, p.Row
	c.UnpricedTokens, c.Approximate = p.UnpricedTokens, p.Approximate
	c.Cost = p.Computed
	if !c.Cost.Valid && c.Reported.Valid {
		c.Cost, c.Estimated = c.Reported, true
	}
}

// Resolve decides which of several events under one id count. Equal content
// is one event, whenever it arrives. Another content that arrives within
// window of the one that counts is a conflict: the first arrival wins, the
// other is dropped. After the window an id may be used anew.
//
// events all have the same id; they may be in any order. winners are in order
// of arrival.
func Resolve(events []usage.Event, window time.Duration) (winners, losers []usage.Event) {
	first := map[usage.ID]usage.Event{}
	for _, e := range events {
		if f, seen := first[e.Content]; !seen || e.Arrived.Before(f.Arrived) {
			first[e.Content] = e
		}
	}
	distinct := make([]usage.Event, 0, len(first))
	for _, e := range first {
		distinct = append(distinct, e)
	}
	slices.SortFunc(distinct, func(a, b usage.Event) int {
		return cmp.Or(a.Arrived.Compare(b.Arrived), slices.Compare(a.Content[:], b.Content[:]))
	})
	for _, e := range distinct {
		if n := len(winners); n > 0 && e.Arrived.Sub(winners[n-1].Arrived) <= window {
			losers = append(losers, e)
			continue
		}
		winners = append(winners, e)
	}
	return winners, losers
}

// LatestLink is the link that counts: the last to arrive; nil for none. Links
// that arrived at the same instant are ordered by their content, so that every
// replica chooses the same one.
func LatestLink(links []usage.Link) *usage.Link {
	if len(links) == 0 {
		return nil
	}
	l := slices.MaxFunc(links, func(a, b usage.Link) int {
		ka, kb := a.Key(), b.Key()
		return cmp.Or(a.Arrived.Compare(b.Arrived), slices.Compare(ka[:], kb[:]))
	})
	return &l
}
