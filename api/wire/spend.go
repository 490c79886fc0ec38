// Package wire holds the bodies of the HTTP API, shared by the server, the
// client and the reports. It imports nothing of this module.
package wire

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Spend is the answer of GET /v1/spend.
type Spend struct {
	Rows  []SpendRow `json:"rows"`
	Total Sums       `json:"total"`
	From  time.Time  `json:"from"` // inclusive
	To    time.Time  `json:"to"`   // exclusive
	// Sources says, if there are no rows, when each source was last heard. It is
	// nil if there are rows.
	Sources []Source `json:"sources,omitzero"`
}

// SpendRow is one group.
type SpendRow struct {
	Keys map[string]string `json:"keys"`
	Sums
}

// Sums are the figures of a group. A pointer is null where nothing is known,
// which is not zero. Dollars are exact decimal strings.
type Sums struct {
	Requests           *uint64  `json:"requests"` // null: counters do not tell
	InputTokens        uint64   `json:"input_tokens"`
	OutputTokens       uint64   `json:"output_tokens"`
	CacheReadTokens    uint64   `json:"cache_read_tokens"`
	CacheWriteTokens   uint64   `json:"cache_write_tokens"`
	CacheWrite5mTokens uint64   `json:"cache_write_5m_tokens"`
	CacheWrite1hTokens uint64   `json:"cache_write_1h_tokens"`
	WebSearches        uint64   `json:"web_search_requests"`
	CostUSD            *string  `json:"cost_usd"` // what counts
	ReportedCostUSD    *string  `json:"reported_cost_usd"`
	ComputedCostUSD    *string  `json:"computed_cost_usd"`
	UnpricedTokens     uint64   `json:"unpriced_tokens"`
	CacheHitRatio      *float64 `json:"cache_hit_ratio"` // read / (read + input)
	CacheSavingsUSD    *string  `json:"cache_savings_usd"`
	// Approximate: a request's size or a cache write's lifetime was unknown.
	Approximate bool `json:"approximate"`
	// Estimated: part of the cost is what the source reported, because the
	// price book does not know the model.
	Estimated bool `json:"estimated"`
}

// Source says when a feed of a project was heard.
type Source struct {
	Feed       string    `json:"feed"`
	Project    string    `json:"project"`
	FirstHeard time.Time `json:"first_heard"`
	LastHeard  time.Time `json:"last_heard"`
}

// Sources is the answer of GET /v1/sources.
type Sources struct {
	Sources []Source `json:"sources"`
}

// WriteCSV writes the rows under a header line, keys first.
func (s *Spend) WriteCSV(w io.Writer, by []string) error {
	out := csv.NewWriter(w)
	header := append([]string{}, by...)
	header = append(header, "requests", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
		"cache_write_5m_tokens", "cache_write_1h_tokens", "web_search_requests", "cost_usd", "reported_cost_usd",
		"computed_cost_usd", "unpriced_tokens", "cache_hit_ratio", "cache_savings_usd", "approximate", "estimated")
	if err := out.Write(header); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	for _, r := range s.Rows {
		if err := out.Write(r.record(by)); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

func (r *SpendRow) record(by []string) []string {
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	text := func(v *string) string {
		if v == nil {
			return ""
		}
		return *v
	}
	rec := make([]string, 0, len(by)+16)
	for _, k := range by {
		rec = append(rec, r.Keys[k])
	}
	requests, ratio := "", ""
	if r.Requests != nil {
		requests = n(*r.Requests)
	}
	if r.CacheHitRatio != nil {
		ratio = strconv.FormatFloat(*r.CacheHitRatio, 'f', 6, 64)
	}
	return append(rec, requests, n(r.InputTokens), n(r.OutputTokens), n(r.CacheReadTokens), n(r.CacheWriteTokens),
		n(r.CacheWrite5mTokens), n(r.CacheWrite1hTokens), n(r.WebSearches), text(r.CostUSD), text(r.ReportedCostUSD),
		text(r.ComputedCostUSD), n(r.UnpricedTokens), ratio, text(r.CacheSavingsUSD),
		strconv.FormatBool(r.Approximate), strconv.FormatBool(r.Estimated))
}
