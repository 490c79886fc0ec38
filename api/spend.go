package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Ledger is what the API reads of the ledger.
type Ledger interface {
	Spend(ctx context.Context, q clickhouse.SpendQuery) ([]clickhouse.Spend, error)
	Sources(ctx context.Context) ([]clickhouse.Source, error)
	HandoffLedger
}

// defaultRange is what a query without from covers.
const defaultRange = 7 * 24 * time.Hour

// spend answers GET /v1/spend.
func (s *server) spend(w http.ResponseWriter, r *http.Request) error {
	params, err := query(r)
	if err != nil {
		return err
	}
	q, err := ParseSpendQuery(params, time.Now())
	if err != nil {
		return err
	}
	answer, err := Spend(r.Context(), s.ledger, q)
	if err != nil {
		return err
	}
	w.Header().Set("Vary", "Accept")
	if prefersCSV(r.Header.Values("Accept")) {
		var table bytes.Buffer
		if err := answer.WriteCSV(&table, q.By); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = table.WriteTo(w) // a client that is gone is no error of ours
		return nil
	}
	envelope.JSON(w, http.StatusOK, answer)
	return nil
}

func (s *server) sources(w http.ResponseWriter, r *http.Request) error {
	sources, err := wireSources(r.Context(), s.ledger)
	if err != nil {
		return err
	}
	envelope.JSON(w, http.StatusOK, wire.Sources{Sources: sources})
	return nil
}

// ParseSpendQuery reads a query of spend from URL parameters: by, from, to and
// a filter per dimension. Times are aligned down to buckets; without to, the
// present bucket is included.
func ParseSpendQuery(v url.Values, now time.Time) (clickhouse.SpendQuery, error) {
	q := clickhouse.SpendQuery{To: usage.Bucket(now).Add(usage.BucketSize), Filter: map[string][]string{}}
	dimensions := clickhouse.Dimensions()
	for _, name := range slices.Sorted(maps.Keys(v)) { // of several mistakes, always the same is named
		values := v[name]
		var err error
		switch {
		case name == "by":
			q.By, err = parseBy(values)
		case name == "from":
			q.From, err = parseTime(name, values, q.From)
		case name == "to":
			q.To, err = parseTime(name, values, q.To)
		case name != "day" && name != "hour" && slices.Contains(dimensions, name):
			q.Filter[name] = values
		default:
			err = envelope.BadField(name, "is no parameter of spend", "use by, from, to or a filter: "+strings.Join(dimensions[:len(dimensions)-2], ", "))
		}
		if err != nil {
			return q, err
		}
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultRange)
	}
	if !q.From.Before(q.To) {
		return q, envelope.BadField("from", "is not before to", "both are aligned down to 5 minutes; to is exclusive")
	}
	return q, nil
}

func parseBy(values []string) ([]string, error) {
	var by []string
	for _, v := range values {
		for d := range strings.SplitSeq(v, ",") {
			switch {
			case d == "" || slices.Contains(by, d):
			case slices.Contains(clickhouse.Dimensions(), d):
				by = append(by, d)
			default:
				return nil, envelope.BadField("by", fmt.Sprintf("%q is no dimension", d), "use "+strings.Join(clickhouse.Dimensions(), ", "))
			}
		}
	}
	return by, nil
}

// parseTime reads a time that is given once; an empty one is as good as absent.
func parseTime(name string, values []string, absent time.Time) (time.Time, error) {
	switch {
	case len(values) > 1:
		return time.Time{}, twice(name)
	case values[0] == "":
		return absent, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, values[0]); err == nil && t.Year() >= 1970 && t.Year() < 2106 {
			return usage.Bucket(t), nil
		}
	}
	return time.Time{}, envelope.BadField(name, "is no time", "use RFC 3339, such as 2026-11-30T12:00:00Z, or a date; in a URL write + as %2B")
}

// Spend runs a query and sums its total.
func Spend(ctx context.Context, ledger Ledger, q clickhouse.SpendQuery) (*wire.Spend, error) {
	rows, err := ledger.Spend(ctx, q)
	if err != nil {
		if errors.Is(err, clickhouse.ErrTooManyRows) {
			return nil, envelope.BadField("by", "gives too many rows", "narrow the range, filter, or group by less")
		}
		return nil, err
	}
	answer := &wire.Spend{Rows: make([]wire.SpendRow, 0, len(rows)), From: q.From, To: q.To}
	var total clickhouse.Spend
	for i := range rows {
		r := &rows[i]
		keys := make(map[string]string, len(q.By))
		for k, name := range q.By {
			keys[name] = r.Keys[k]
		}
		answer.Rows = append(answer.Rows, wire.SpendRow{Keys: keys, Sums: sums(r)})
		total.Add(r)
	}
	answer.Total = sums(&total)
	if len(rows) == 0 {
		if answer.Sources, err = wireSources(ctx, ledger); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func sums(s *clickhouse.Spend) wire.Sums {
	return wire.Sums{
		Requests:           s.Requests,
		InputTokens:        s.Tokens.Input,
		OutputTokens:       s.Tokens.Output,
		CacheReadTokens:    s.Tokens.CacheRead,
		CacheWriteTokens:   s.Tokens.CacheWrite,
		CacheWrite5mTokens: s.Tokens.CacheWrite5m,
		CacheWrite1hTokens: s.Tokens.CacheWrite1h,
		WebSearches:        s.WebSearches,
		CostUSD:            dollars(s.Cost),
		ReportedCostUSD:    dollars(s.Reported),
		ComputedCostUSD:    dollars(s.Computed),
		UnpricedTokens:     s.UnpricedTokens,
		CacheHitRatio:      hitRatio(s.Tokens),
		CacheSavingsUSD:    dollars(s.Savings),
		Approximate:        s.Approximate,
		Estimated:          s.Estimated,
	}
}

func dollars(n usage.NullNano) *string {
	if !n.Valid {
		return nil
	}
	s := n.Nano.String()
	return &s
}

// hitRatio is the share of the prompt's tokens that the cache served; null
// where there was neither.
func hitRatio(t usage.Tokens) *float64 {
	if t.CacheRead+t.Input == 0 {
		return nil
	}
	v := float64(t.CacheRead) / float64(t.CacheRead+t.Input)
	return &v
}

func wireSources(ctx context.Context, ledger Ledger) ([]wire.Source, error) {
	sources, err := ledger.Sources(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]wire.Source, 0, len(sources))
	for _, s := range sources {
		out = append(out, wire.Source{Feed: s.Feed, Project: s.Project, FirstHeard: s.First, LastHeard: s.Last})
	}
	return out, nil
}
