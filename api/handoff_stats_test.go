package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

func TestParseHandoffStats(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 1, 0, 0, time.UTC)
	q, err := parseHandoffStats(url.Values{}, now)
	end := time.Date(2026, 11, 30, 12, 5, 0, 0, time.UTC)
	if diff := cmp.Diff(clickhouse.HandoffStatsQuery{From: end.Add(-7 * 24 * time.Hour), To: end, Now: now, StaleAfter: 7 * 24 * time.Hour, Keys: 100}, q); diff != "" || err != nil {
		t.Error(err, diff)
	}
	// What is empty is as good as absent.
	if empty, err := parseHandoffStats(url.Values{"from": {""}, "to": {""}, "stale_after": {""}}, now); !cmp.Equal(q, empty) || err != nil {
		t.Errorf("%+v, %v", empty, err)
	}
	q, err = parseHandoffStats(url.Values{
		"project": {"a", "b"}, "repo": {""}, "kind": {"review"}, "from": {"2026-11-01"}, "to": {"2026-11-02"}, "stale_after": {"36h"},
	}, now)
	if err != nil || len(q.Projects) != 2 || q.Repos[0] != "" || q.Kinds[0] != "review" || q.StaleAfter != 36*time.Hour || q.To.Sub(q.From) != 24*time.Hour {
		t.Errorf("%+v, %v", q, err)
	}
	for _, bad := range []url.Values{
		{"colour": {"red"}},
		{"from": {"x"}},
		{"to": {"2026-11-01", "2026-11-02"}},
		{"from": {"2026-11-02"}, "to": {"2026-11-01"}},
		{"stale_after": {"", ""}},
		{"stale_after": {"d"}},
		{"stale_after": {"-1d"}},
		{"stale_after": {"0d"}},
		{"stale_after": {"1.5d"}},
		{"stale_after": {"99999d"}},
		{"stale_after": {"7"}},
		{"stale_after": {"1d", "2d"}},
		{"project": {"\xff"}},
		{"kind": {"a\x00"}},
		{"repo": strings.Split(strings.Repeat("x,", 200), ",")},
	} {
		if _, err := parseHandoffStats(bad, now); err == nil {
			t.Errorf("%v is read", bad)
		}
	}
}

func TestHandoffStatsOverHTTP(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(serve(t, &ledger{}).main)
	t.Cleanup(srv.Close)
	got, err := client.New(srv.URL).HandoffStats(t.Context(), url.Values{"stale_after": {"2d"}})
	if err != nil || got.StaleAfterSeconds != 2*86400 || got.Open.OldestSeconds != nil || got.OpenBy == nil || got.Stale == nil || got.NeverRead == nil ||
		!got.Continuations.BestEffort || got.Continuations.ApproximateSavedUSD != nil || got.ReadAfterWrite.MedianSeconds != nil {
		t.Errorf("%+v, %v", got, err)
	}
	s := serve(t, &ledger{err: clickhouse.ErrTooManyRows})
	if w := send(s.main, http.MethodGet, "/v1/handoffs/stats", ""); w.Code != http.StatusBadRequest || failure(t, w).Field != "from" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(s.main, http.MethodGet, "/v1/handoffs/stats?a=%zz", ""); w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s = serve(t, &ledger{err: errors.New("secret")})
	if w := send(s.main, http.MethodGet, "/v1/handoffs/stats", ""); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestWireHandoffStats(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	q := &clickhouse.HandoffStatsQuery{Now: now, From: now.Add(-time.Hour), To: now, StaleAfter: time.Hour}
	stats := &clickhouse.HandoffStats{
		Open:           clickhouse.HandoffAges{Count: 2, Stale: 1, NeverRead: 1, UnreadSince: 2, Oldest: 3 * time.Second, MedianAge: 2 * time.Second, P95Age: 3 * time.Second},
		Groups:         []clickhouse.HandoffGroup{{Project: "demo", Kind: "review"}},
		Stale:          []clickhouse.OpenHandoff{{Key: "k", UpdatedAt: now.Add(-90 * time.Second), Bytes: 5, Reads: 1}},
		Size:           clickhouse.HandoffSizes{Median: 5, P95: 8, Max: 9, Counts: []uint64{2, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
		ReadAfterWrite: clickhouse.ReadAfterWrite{Writes: 3, Read: 1, Median: 1500 * time.Millisecond, P95: 2 * time.Second},
		Continuations: clickhouse.Continuations{
			Count: 4, Estimated: 3, Unknown: 1, SavedTokens: 1_001_503,
			Rows: []clickhouse.RowTokens{{PriceRow: "", Tokens: 500}, {PriceRow: "gone", Tokens: 1000}, {PriceRow: "opus", Tokens: 1_000_001}, {PriceRow: "haiku", Tokens: 2}},
		},
	}
	prices := map[string]uint64{"opus": 5_000_000, "haiku": 125} // 5 and 0.000125 US$ per million
	got := wireHandoffStats(q, stats, func(row string) (uint64, bool) { p, ok := prices[row]; return p, ok })
	if c := got.Continuations; c.ApproximateSavedUSD == nil || *c.ApproximateSavedUSD != "5.000005" || c.UnpricedTokens != 1500 || c.ApproximateSavedTokens != 1_001_503 {
		t.Errorf("%+v, %v", c, *c.ApproximateSavedUSD)
	}
	if h := got.Stale[0]; h.AgeSeconds != 90 || h.ApproximateTokens != 2 || h.Reads != 1 {
		t.Errorf("%+v", h)
	}
	if z := got.Size; *z.MedianApproximateTokens != 2 || *z.P95ApproximateTokens != 2 || *z.MaxApproximateTokens != 3 || *z.Histogram[0].UpToApproximateTokens != 64 ||
		z.Histogram[9].UpToBytes != nil || z.Histogram[9].Count != 1 {
		t.Errorf("%+v", z)
	}
	if *got.ReadAfterWrite.MedianSeconds != 1.5 || *got.Open.OldestSeconds != 3 || got.OpenBy[0].OldestSeconds != nil {
		t.Errorf("%+v", got)
	}
	// Not knowing a price is not a price of zero, and saving nothing is not
	// unknown.
	for name, c := range map[string]struct {
		continuations clickhouse.Continuations
		price         InputPrice
		want          usage.NullNano
		unpriced      uint64
	}{
		"no book":     {stats.Continuations, nil, usage.NullNano{}, 1_001_503},
		"no estimate": {clickhouse.Continuations{}, func(string) (uint64, bool) { return 1, true }, usage.NullNano{}, 0},
		"nothing":     {clickhouse.Continuations{Rows: []clickhouse.RowTokens{{PriceRow: "opus"}}}, func(string) (uint64, bool) { return 1, true }, usage.Some(0), 0},
	} {
		cost, unpriced := savings(&c.continuations, c.price)
		if cost != c.want || unpriced != c.unpriced {
			t.Errorf("%s: %+v, %d", name, cost, unpriced)
		}
	}
	text, err := json.Marshal(got)
	var again wire.HandoffStats
	if err != nil || json.Unmarshal(text, &again) != nil || !cmp.Equal(got, &again) {
		t.Errorf("%s, %v", text, err)
	}
}
