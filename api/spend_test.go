package api

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

func TestParseSpendQuery(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 7, 30, 0, time.UTC)
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	none := map[string][]string{}
	for query, want := range map[string]clickhouse.SpendQuery{
		"": {From: at("2026-11-23T12:10:00Z"), To: at("2026-11-30T12:10:00Z"), Filter: none},
		"from=2026-11-30T11:03:00Z&to=2026-11-30T12:09:59.9Z": {From: at("2026-11-30T11:00:00Z"), To: at("2026-11-30T12:05:00Z"), Filter: none},
		"from=2026-11-30T12:03:00%2B01:00":                    {From: at("2026-11-30T11:00:00Z"), To: at("2026-11-30T12:10:00Z"), Filter: none},
		"from=2026-11-01&to=2026-11-02":                       {From: at("2026-11-01T00:00:00Z"), To: at("2026-11-02T00:00:00Z"), Filter: none},
		"from=&to=":                                           {From: at("2026-11-23T12:10:00Z"), To: at("2026-11-30T12:10:00Z"), Filter: none}, // as if absent
		"to=2026-11-02":                                       {From: at("2026-10-26T00:00:00Z"), To: at("2026-11-02T00:00:00Z"), Filter: none},
		"by=kind,repo&by=day&by=kind,": {
			By: []string{"kind", "repo", "day"}, From: at("2026-11-23T12:10:00Z"), To: at("2026-11-30T12:10:00Z"), Filter: none,
		},
		"kind=a&kind=b&repo=": {
			From: at("2026-11-23T12:10:00Z"), To: at("2026-11-30T12:10:00Z"), Filter: map[string][]string{"kind": {"a", "b"}, "repo": {""}},
		},
	} {
		v, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseSpendQuery(v, now)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	for query, field := range map[string]string{
		"colour=red":                      "colour",
		"zebra=1&colour=red&by=nothing":   "by",
		"day=2026-11-30":                  "day",
		"hour=1":                          "hour",
		"by=kind,colour":                  "by",
		"from=yesterday":                  "from",
		"to=1764500000":                   "to",
		"from=2026-11-30T12:00:00":        "from",
		"from=2026-11-30T12:03:00+01:00":  "from", // + is a blank in a query
		"from=1969-12-31":                 "from",
		"to=2106-01-01":                   "to",
		"from=2026-11-01&from=2026-11-02": "from",
		"to=&to=":                         "to",
		"from=2026-11-02&to=2026-11-02":   "from",
		"from=2026-11-02&to=2026-11-01":   "from",
		"from=2027-01-01":                 "from",
	} {
		v, _ := url.ParseQuery(query)
		_, err := ParseSpendQuery(v, now)
		var e *envelope.Error
		if !errors.As(err, &e) || e.Status != http.StatusBadRequest || e.Field != field || e.Hint == "" {
			t.Errorf("%s: %+v", query, err)
		}
	}
}

func TestSpendQueryIsEscaped(t *testing.T) {
	t.Parallel()
	s := serve(t, &ledger{})
	for _, query := range []string{"?kind=%zz", "?kind=a;repo=b"} {
		if w := send(s.main, http.MethodGet, "/v1/spend"+query, ""); w.Code != 400 || failure(t, w).Field != "query" {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
}

// TestSpendAnswer: null is unknown, which is not zero; both are told apart.
func TestSpendAnswer(t *testing.T) {
	t.Parallel()
	n := uint64(3)
	l := &ledger{rows: []clickhouse.Spend{
		{
			Keys: []string{"review, \"x\""}, Requests: &n, Tokens: usage.Tokens{Input: 1, CacheRead: 3},
			Cost: usage.Some(1_500_000), Computed: usage.Some(1_500_000), Savings: usage.Some(-5),
		},
		{Keys: []string{""}, Tokens: usage.Tokens{Output: 2}, UnpricedTokens: 2, Cost: usage.Some(0), Reported: usage.Some(0), Estimated: true},
	}}
	s := serve(t, l)
	w := send(s.main, http.MethodGet, "/v1/spend?by=kind&from=2026-11-30&to=2026-12-01", "")
	const want = `{"rows":[` +
		`{"keys":{"kind":"review, \"x\""},"requests":3,"input_tokens":1,"output_tokens":0,"cache_read_tokens":3,"cache_write_tokens":0,` +
		`"cache_write_5m_tokens":0,"cache_write_1h_tokens":0,"web_search_requests":0,"cost_usd":"0.0015","reported_cost_usd":null,` +
		`"computed_cost_usd":"0.0015","unpriced_tokens":0,"cache_hit_ratio":0.75,"cache_savings_usd":"-0.000000005","approximate":false,"estimated":false},` +
		`{"keys":{"kind":""},"requests":null,"input_tokens":0,"output_tokens":2,"cache_read_tokens":0,"cache_write_tokens":0,` +
		`"cache_write_5m_tokens":0,"cache_write_1h_tokens":0,"web_search_requests":0,"cost_usd":"0","reported_cost_usd":"0",` +
		`"computed_cost_usd":null,"unpriced_tokens":2,"cache_hit_ratio":null,"cache_savings_usd":null,"approximate":false,"estimated":true}],` +
		`"total":{"requests":3,"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":0,` +
		`"cache_write_5m_tokens":0,"cache_write_1h_tokens":0,"web_search_requests":0,"cost_usd":"0.0015","reported_cost_usd":"0",` +
		`"computed_cost_usd":"0.0015","unpriced_tokens":2,"cache_hit_ratio":0.75,"cache_savings_usd":"-0.000000005","approximate":false,"estimated":true},` +
		`"from":"2026-11-30T00:00:00Z","to":"2026-12-01T00:00:00Z"}` + "\n"
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w = send(s.main, http.MethodGet, "/v1/spend?by=kind", "", "Accept", "text/csv")
	const table = "kind,requests,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,cache_write_5m_tokens,cache_write_1h_tokens," +
		"web_search_requests,cost_usd,reported_cost_usd,computed_cost_usd,unpriced_tokens,cache_hit_ratio,cache_savings_usd,approximate,estimated\n" +
		"\"review, \"\"x\"\"\",3,1,0,3,0,0,0,0,0.0015,,0.0015,0,0.750000,-0.000000005,false,false\n" +
		",,0,2,0,0,0,0,0,0,0,,2,,,false,true\n"
	if diff := cmp.Diff(table, w.Body.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w.Header().Get("Content-Type") != "text/csv; charset=utf-8" || w.Header().Get("Vary") != "Accept" {
		t.Errorf("%v", w.Header())
	}
}

// TestEmptySpend: a consumer may range over rows, and sees whether anything
// was heard at all.
func TestEmptySpend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sources []clickhouse.Source
		want    string
	}{
		{nil, `"sources":[]`},
		{[]clickhouse.Source{{Feed: "push", Project: "p"}}, `"sources":[{"feed":"push","project":"p",`},
	} {
		w := send(serve(t, &ledger{sources: c.sources}).main, http.MethodGet, "/v1/spend", "")
		for _, want := range []string{`{"rows":[],"total":{"requests":null,`, `"cost_usd":null`, c.want} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("no %s in %s", want, w.Body)
			}
		}
	}
	if w := send(serve(t, &ledger{}).main, http.MethodGet, "/v1/sources", ""); w.Body.String() != `{"sources":[]}`+"\n" {
		t.Error(w.Body)
	}
}

func TestPrefersCSV(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/html": false, "text/csvx": false,
		"text/csv": true, "TEXT/CSV; charset=utf-8": true, "text/*": true, "text/csv, */*": true, "text/csv;q=0.5, application/json;q=0.4": true,
		"text/csv, application/json": false, "text/csv;q=0.4, application/json": false, "text/csv;q=0": false, "text/csv;q=0, text/*": false,
		"text/csv;q=2": false, "text/csv;q=NaN": false, "application/json;q=0.1, */*": true, "x/text/csv": false, ",,;": false,
	} {
		if got := prefersCSV([]string{accept}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
	if !prefersCSV([]string{"application/json;q=0.5", "text/csv"}) {
		t.Error("several headers are one list")
	}
}
