package api

import (
	"context"
	"errors"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// HandoffLedger is what the API reads of the ledger about handoffs.
type HandoffLedger interface {
	HandoffStats(ctx context.Context, q clickhouse.HandoffStatsQuery) (*clickhouse.HandoffStats, error)
}

// InputPrice is the price of one input token, in pico-dollars, by the row of
// the price book that a charge names; false: the row is not known any more, or
// has no such price.
type InputPrice func(priceRow string) (picoDollars uint64, ok bool)

const (
	defaultStaleAfter = 7 * 24 * time.Hour
	maxStaleAfter     = 3650 * 24 * time.Hour
	// statsKeys bounds the lists of handoffs: enough to act upon.
	statsKeys = 100
	// statsValues bounds the values of one filter.
	statsValues = 100

	savingsMethod = "per continuation: tokens sent by the previous run's last call before the read (input, cache reads and cache writes of its main agent), " +
		"less the handoff's approximate tokens, at least 0; priced as uncached input by the price row of that call, without discounts or surcharges. " +
		"What replaying the whole context would have cost once; what the next run had to find out again is not deducted"
)

// handoffStats answers GET /v1/handoffs/stats.
func (s *server) handoffStats(w http.ResponseWriter, r *http.Request) error {
	params, err := query(r)
	if err != nil {
		return err
	}
	q, err := parseHandoffStats(params, time.Now())
	if err != nil {
		return err
	}
	stats, err := s.ledger.HandoffStats(r.Context(), q)
	if errors.Is(err, clickhouse.ErrTooManyRows) {
		return envelope.BadField("from", "gives too many reads", "narrow the range, or filter")
	}
	if err != nil {
		return err
	}
	envelope.JSON(w, http.StatusOK, wireHandoffStats(&q, stats, s.inputPrice))
	return nil
}

func parseHandoffStats(v url.Values, now time.Time) (clickhouse.HandoffStatsQuery, error) {
	q := clickhouse.HandoffStatsQuery{
		To: usage.Bucket(now).Add(usage.BucketSize), Now: now.UTC(), StaleAfter: defaultStaleAfter, Keys: statsKeys,
	}
	for _, name := range slices.Sorted(maps.Keys(v)) { // of several mistakes, always the same is named
		values := v[name]
		var err error
		switch name {
		case "project":
			q.Projects, err = statsFilter(name, values)
		case "repo":
			q.Repos, err = statsFilter(name, values)
		case "kind":
			q.Kinds, err = statsFilter(name, values)
		case "from":
			q.From, err = parseTime(name, values, q.From)
		case "to":
			q.To, err = parseTime(name, values, q.To)
		case "stale_after":
			q.StaleAfter, err = parseAge(name, values, q.StaleAfter)
		default:
			err = envelope.BadField(name, "is no parameter here", "use project, repo, kind, stale_after, from, to")
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

func statsFilter(name string, values []string) ([]string, error) {
	if len(values) > statsValues {
		return nil, envelope.BadField(name, "is given too often", "give at most "+strconv.Itoa(statsValues)+" values")
	}
	for _, v := range values {
		if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			return nil, envelope.BadField(name, "is not UTF-8 without NUL", "encode it as UTF-8")
		}
	}
	return values, nil
}

// parseAge reads a duration that is given once and may be a whole number of
// days; an empty one is as good as absent.
func parseAge(name string, values []string, absent time.Duration) (time.Duration, error) {
	switch {
	case len(values) > 1:
		return 0, twice(name)
	case values[0] == "":
		return absent, nil
	}
	d, err := time.ParseDuration(values[0])
	if days, ok := strings.CutSuffix(values[0], "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < time.Second || d > maxStaleAfter {
		return 0, envelope.BadField(name, "is no time from 1s to 3650d", "write it like 7d or 36h")
	}
	return d, nil
}

func wireHandoffStats(q *clickhouse.HandoffStatsQuery, s *clickhouse.HandoffStats, price InputPrice) *wire.HandoffStats {
	out := &wire.HandoffStats{
		AsOf: q.Now, From: q.From, To: q.To, StaleAfterSeconds: q.StaleAfter.Seconds(),
		Open:      wireAges(&s.Open),
		OpenBy:    make([]wire.HandoffGroup, 0, len(s.Groups)),
		Stale:     wireOpen(s.Stale, q.Now),
		NeverRead: wireOpen(s.NeverRead, q.Now),
		Size:      wireSizes(&s.Size, s.Open.Count > 0),
		ReadAfterWrite: wire.ReadAfterWrite{
			Writes: s.ReadAfterWrite.Writes, Read: s.ReadAfterWrite.Read, BestEffort: true,
			MedianSeconds: seconds(s.ReadAfterWrite.Median, s.ReadAfterWrite.Read > 0),
			P95Seconds:    seconds(s.ReadAfterWrite.P95, s.ReadAfterWrite.Read > 0),
		},
		Continuations: wireContinuations(&s.Continuations, price),
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		out.OpenBy = append(out.OpenBy, wire.HandoffGroup{Project: g.Project, Kind: g.Kind, HandoffAges: wireAges(&g.HandoffAges)})
	}
	return out
}

func wireAges(a *clickhouse.HandoffAges) wire.HandoffAges {
	some := a.Count > 0
	return wire.HandoffAges{
		Count: a.Count, Stale: a.Stale, NeverRead: a.NeverRead, UnreadSinceWrite: a.UnreadSince,
		OldestSeconds: seconds(a.Oldest, some), MedianSeconds: seconds(a.MedianAge, some), P95Seconds: seconds(a.P95Age, some),
	}
}

// seconds is null where there was nothing to measure.
func seconds(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	v := d.Seconds()
	return &v
}

func wireOpen(all []clickhouse.OpenHandoff, now time.Time) []wire.OpenHandoff {
	out := make([]wire.OpenHandoff, 0, len(all))
	for i := range all {
		h := &all[i]
		out = append(out, wire.OpenHandoff{
			HandoffKey: h.Key, Project: h.Project, Repo: h.Repo, Kind: h.Kind,
			UpdatedAt: h.UpdatedAt, AgeSeconds: max(0, now.Sub(h.UpdatedAt)).Seconds(),
			Bytes: h.Bytes, ApproximateTokens: clickhouse.ApproximateTokens(h.Bytes), Reads: h.Reads,
		})
	}
	return out
}

func wireSizes(s *clickhouse.HandoffSizes, known bool) wire.HandoffSizes {
	out := wire.HandoffSizes{Histogram: make([]wire.HandoffSize, 0, len(s.Counts))}
	if known {
		out.MedianBytes, out.MedianApproximateTokens = size(s.Median)
		out.P95Bytes, out.P95ApproximateTokens = size(s.P95)
		out.MaxBytes, out.MaxApproximateTokens = size(s.Max)
	}
	bounds := clickhouse.SizeBounds()
	for i, n := range s.Counts {
		h := wire.HandoffSize{Count: n}
		if i < len(bounds) {
			h.UpToBytes, h.UpToApproximateTokens = size(bounds[i])
		}
		out.Histogram = append(out.Histogram, h)
	}
	return out
}

// size is a number of bytes, and of tokens. A larger body never has fewer, so
// quantiles of the one are those of the other.
func size(bytes uint64) (asBytes, asTokens *uint64) {
	tokens := clickhouse.ApproximateTokens(bytes)
	return &bytes, &tokens
}

func wireContinuations(c *clickhouse.Continuations, price InputPrice) wire.Continuations {
	cost, unpriced := savings(c, price)
	return wire.Continuations{
		Count: c.Count, Estimated: c.Estimated, Unknown: c.Unknown, UnattributedReads: c.UnattributedReads,
		ApproximateSavedTokens: c.SavedTokens, ApproximateSavedUSD: dollars(cost), UnpricedTokens: unpriced,
		BestEffort: true, Method: savingsMethod,
	}
}

// savings prices the saved tokens as input; null if none of the calls has a
// price.
func savings(c *clickhouse.Continuations, price InputPrice) (cost usage.NullNano, unpriced uint64) {
	sum := new(big.Int) // pico-dollars
	for _, row := range c.Rows {
		rate, ok := uint64(0), false
		if price != nil && row.PriceRow != "" {
			rate, ok = price(row.PriceRow)
		}
		if !ok {
			unpriced += row.Tokens
			continue
		}
		cost.Valid = true
		sum.Add(sum, new(big.Int).Mul(new(big.Int).SetUint64(row.Tokens), new(big.Int).SetUint64(rate)))
	}
	const picoPerNano = 1000
	cost.Nano = usage.RoundNano(new(big.Rat).SetFrac(sum, big.NewInt(picoPerNano)))
	return cost, unpriced
}
