package pricing

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// late is after every dated row of 2026, within 2026.
var late = time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)

func shippedBook(t testing.TB) *Book {
	t.Helper()
	b, err := LoadFile("")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func overlay(t testing.TB, text string) *Book {
	t.Helper()
	b, err := Load("user.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dollarsOf(t testing.TB, s string) usage.NullNano {
	t.Helper()
	if s == "null" {
		return usage.NullNano{}
	}
	n, err := usage.ParseDollars(strings.TrimPrefix(s, "-"))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	if strings.HasPrefix(s, "-") {
		n = -n
	}
	return usage.Some(n)
}

type priceCase struct {
	name   string
	u      Usage // Time defaults to late, WholeRequest to true unless counter
	count  bool  // a counter
	want   string
	saved  string // "" is not compared
	lost   uint64 // unpriced tokens
	approx bool
	row    string // row ID; "" is not compared
}

func runPriceCases(t *testing.T, b *Book, cases []priceCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.u.WholeRequest = !c.count
			if c.u.Time.IsZero() {
				c.u.Time = late
			}
			p := b.Price(c.u)
			want := Price{
				Computed: dollarsOf(t, c.want), UnpricedTokens: c.lost, Approximate: c.approx,
				Savings: p.Savings, Row: p.Row,
			}
			if c.saved != "" {
				want.Savings = dollarsOf(t, c.saved)
			}
			if diff := cmp.Diff(want, p); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if id, _, _ := strings.Cut(p.Row, "#"); c.row != "" && id != c.row {
				t.Errorf("row %s, want %s", id, c.row)
			}
		})
	}
}

func write5m(n uint64) usage.Tokens { return usage.Tokens{CacheWrite: n, CacheWrite5m: n} }
func write1h(n uint64) usage.Tokens { return usage.Tokens{CacheWrite: n, CacheWrite1h: n} }

// TestReportedFaults holds the book against faults that users of other tools
// reported.
func TestReportedFaults(t *testing.T) {
	t.Parallel()
	runPriceCases(t, shippedBook(t), []priceCase{
		{
			name: "ccusage#899: 1 h writes at the 1 h price",
			u:    Usage{Model: "claude-sonnet-4-6", Tokens: write1h(3904)}, want: "0.023424",
		},
		{
			name: "litellm#9812, bifrost#3451: writes are charged once",
			u: Usage{Model: "claude-3-7-sonnet-20250219", Tokens: usage.Tokens{
				Input: 3, CacheWrite: 12304, CacheWrite5m: 12304, Output: 550,
			}},
			want: "0.054399", row: "claude-sonnet-3-7",
		},
		{
			name: "Helicone PR#5779, litellm#30135: the whole request at the high tier",
			u:    Usage{Model: "claude-sonnet-4", Tokens: usage.Tokens{Input: 10_000, CacheRead: 240_000}},
			want: "0.204", row: "claude-sonnet-4>200000",
		},
		{
			name: "ccusage#934: a mini model is not its big sister",
			u:    Usage{Model: "gpt-6-astra-mini", Tokens: usage.Tokens{Input: 100, Output: 7}},
			want: "null", saved: "null", lost: 107,
		},
		{
			name: "ccusage#934: a big sister is not its mini model",
			u:    Usage{Model: "claude-opus", Tokens: usage.Tokens{Input: 100}},
			want: "null", saved: "null", lost: 100,
		},
		{
			name: "litellm#38056: an unknown model is null, not -1",
			u:    Usage{Model: "acme-llm-7b", Tokens: usage.Tokens{Input: 8, Output: 138, CacheRead: 1500, CacheWrite: 12011}, WebSearches: 3},
			want: "null", saved: "null", lost: 13657,
		},
	})
	_, err := Load("user.yaml", strings.NewReader(
		"rows: [{model: bad-model, input: 0.25, output: 2, cache_write_5m: 0.3, cache_write_1h: 6, cache_read: 0.02}]"))
	if err == nil || !strings.Contains(err.Error(), "row bad-model: cache_write_1h 6 is over 4 times input 0.25") {
		t.Errorf("litellm#38056: 1 h write at 24 times input: %v", err)
	}
}

// TestVectors are amounts known from elsewhere: the price list's own vectors
// and what the client of an agent charged for calls of known size.
func TestVectors(t *testing.T) {
	t.Parallel()
	call := usage.Tokens{Input: 8, Output: 138, CacheRead: 1500, CacheWrite: 12011, CacheWrite5m: 12011}
	mixed := usage.Tokens{Input: 8, Output: 138, CacheRead: 1500, CacheWrite: 16014, CacheWrite5m: 12011, CacheWrite1h: 4003}
	runPriceCases(t, shippedBook(t), []priceCase{
		{name: "Sonnet 3.7", want: "0.054399", u: Usage{
			Model: "claude-sonnet-3-7", Tokens: usage.Tokens{Input: 3, CacheWrite: 12304, CacheWrite5m: 12304, Output: 550},
		}},
		{name: "Opus 4.7", want: "1.06376125", u: Usage{
			Model: "claude-opus-4-7", Tokens: usage.Tokens{Input: 6, CacheWrite: 159217, CacheWrite5m: 159217, Output: 2745},
		}},
		{name: "1 h write", want: "0.023424", u: Usage{Model: "claude-sonnet-4-6", Tokens: write1h(3904)}},
		{name: "Haiku 4.5 cost-state", want: "0.0319246", u: Usage{Model: "claude-haiku-4-5-20251001", Tokens: usage.Tokens{
			Input: 368, Output: 516, CacheRead: 106786, CacheWrite: 9149, CacheWrite1h: 9149,
		}}},
		{name: "measured: Sonnet 4.5", want: "0.04758525", u: Usage{Model: "claude-sonnet-4-5-20250929", Tokens: call}},
		{name: "measured: newest Opus", want: "0.063147", u: Usage{Model: "claude-opus-5-5", Tokens: call}},
		{name: "measured: fast doubles Opus 5.5", want: "0.126294", u: Usage{Model: "claude-opus-5-5", Tokens: call, Speed: SpeedFast}},
		{name: "measured: writes of both lifetimes", want: "0.07160325", u: Usage{Model: "claude-sonnet-4-5", Tokens: mixed}},
		{name: "measured: two web searches", want: "0.06758525", u: Usage{Model: "claude-sonnet-4-5", Tokens: call, WebSearches: 2}},
	})
}

// TestMeasuredPrices compares the book with unit prices measured from the
// client of an agent, version by version.
func TestMeasuredPrices(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/pricing.json")
	if err != nil {
		t.Fatal(err)
	}
	var versions map[string]json.RawMessage
	if err := json.Unmarshal(text, &versions); err != nil {
		t.Fatal(err)
	}
	b, compared := shippedBook(t), 0
	for version, raw := range versions {
		if strings.HasPrefix(version, "_") {
			continue
		}
		var models map[string]struct {
			Input, Output, CacheCreation5m, CacheCreation1h, CacheRead, WebSearch json.Number
		}
		if err := json.Unmarshal(raw, &models); err != nil {
			t.Fatal(err)
		}
		for name, m := range models {
			if name == "acme-llm-7b" { // the client's fallback, not a price
				if p := b.Price(Usage{Model: name, Time: late}); p.Computed.Valid {
					t.Errorf("%s is priced", name)
				}
				continue
			}
			type unit struct {
				u    Usage
				want json.Number
			}
			const million = 1_000_000
			units := []unit{
				{Usage{Tokens: usage.Tokens{Input: million}}, m.Input},
				{Usage{Tokens: usage.Tokens{Output: million}}, m.Output},
				{Usage{Tokens: usage.Tokens{CacheRead: million}}, m.CacheRead},
				{Usage{Tokens: write5m(million)}, m.CacheCreation5m},
				{Usage{WebSearches: 1}, m.WebSearch},
			}
			if version != "2.0.76" { // which charges 1 h writes at the 5 min rate, a fault of its own
				units = append(units, unit{Usage{Tokens: write1h(million)}, m.CacheCreation1h})
			}
			for _, c := range units {
				// As a counter: a million tokens in one request would be the high tier.
				c.u.Model, c.u.Time = name, late
				if got, want := b.Price(c.u).Computed, dollarsOf(t, c.want.String()); got != want {
					t.Errorf("%s %s %+v: %s, measured %s", version, name, c.u.Tokens, got.Nano, want.Nano)
				}
				compared++
			}
		}
	}
	if compared != 4*5+9*6 {
		t.Errorf("compared %d prices", compared)
	}
}

func TestEffectiveDates(t *testing.T) {
	t.Parallel()
	read, in := usage.Tokens{CacheRead: 1_000_000}, usage.Tokens{Input: 1_000_000}
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	runPriceCases(t, shippedBook(t), []priceCase{
		{
			name: "sonnet-5-5 not yet sold", want: "null", saved: "null", lost: 1_000_000,
			u: Usage{Model: "claude-sonnet-5-5", Tokens: read, Time: at("2026-09-27T23:59:59.999Z")},
		},
		{
			name: "sonnet-5-5 first row", want: "0.2", row: "claude-sonnet-5-5@2026-09-28",
			u: Usage{Model: "claude-sonnet-5-5", Tokens: read, Time: at("2026-09-28T00:00:00Z")},
		},
		{
			name: "sonnet-5-5 last instant of the first row", want: "0.2",
			u: Usage{Model: "claude-sonnet-5-5", Tokens: read, Time: at("2026-10-06T23:59:59.999Z")},
		},
		{
			name: "sonnet-5-5 cheaper reads", want: "0.1", row: "claude-sonnet-5-5@2026-10-07",
			u: Usage{Model: "claude-sonnet-5-5", Tokens: read, Time: at("2026-10-07T00:00:00Z")},
		},
		{
			name: "sonnet-5-5 the instant counts, not its zone", want: "0.2",
			u: Usage{Model: "claude-sonnet-5-5", Tokens: read, Time: at("2026-10-07T01:00:00+02:00")},
		},
		{
			name: "gemini-3.8-flash", want: "0.75", row: "gemini-3.8-flash",
			u: Usage{Model: "gemini-3.8-flash", Tokens: in, Time: at("2026-12-31T23:59:59Z")},
		},
		{
			name: "gemini-3.8-flash doubled", want: "1.5", row: "gemini-3.8-flash@2027-01-01",
			u: Usage{Model: "gemini-3.8-flash", Tokens: in, Time: at("2027-01-01T00:00:00Z")},
		},
		{
			name: "haiku-5-5 not yet sold, high tier", want: "null", lost: 1_000_000,
			u: Usage{Model: "claude-haiku-5-5", Tokens: in, Time: at("2026-10-06T12:00:00Z")},
		},
	})
}

func TestTiers(t *testing.T) {
	t.Parallel()
	runPriceCases(t, shippedBook(t), []priceCase{
		{
			name: "at the threshold", u: Usage{Model: "claude-sonnet-4-5", Tokens: usage.Tokens{Input: 200_000}},
			want: "0.6", row: "claude-sonnet-4-5",
		},
		{
			name: "one above", u: Usage{Model: "claude-sonnet-4-5", Tokens: usage.Tokens{Input: 200_001}},
			want: "1.200006", row: "claude-sonnet-4-5>200000",
		},
		{
			name: "reads and writes count, output does not",
			u: Usage{Model: "claude-haiku-5-5", Tokens: usage.Tokens{
				Input: 1, Output: 500_000, CacheRead: 50_000, CacheWrite: 49_999, CacheWrite5m: 49_999,
			}},
			want: "0.256749975", row: "claude-haiku-5-5@2026-10-07", // 0.0000001 + 0.25 + 0.0005 + 0.006249875
		},
		{
			name: "one write more",
			u: Usage{Model: "claude-haiku-5-5", Tokens: usage.Tokens{
				Input: 1, Output: 500_000, CacheRead: 50_000, CacheWrite: 50_000, CacheWrite5m: 50_000,
			}},
			want: "1.2837505", row: "claude-haiku-5-5@2026-10-07>100000", // five times the price of each
		},
		{
			name: "a counter stays at the lowest", count: true,
			u:    Usage{Model: "claude-sonnet-4-5", Tokens: usage.Tokens{Input: 10_000_000}},
			want: "30", approx: true, row: "claude-sonnet-4-5",
		},
		{
			name: "a counter of an untiered model is exact", count: true,
			u: Usage{Model: "claude-sonnet-4-6", Tokens: usage.Tokens{Input: 10_000_000}}, want: "30",
		},
		{
			name: "flat to a million", u: Usage{Model: "claude-sonnet-4-6", Tokens: usage.Tokens{Input: 1_000_000}},
			want: "3",
		},
		{
			name: "savings are of the tier too", u: Usage{Model: "claude-sonnet-4", Tokens: usage.Tokens{CacheRead: 1_000_000}},
			want: "0.6", saved: "5.4",
		},
	})
}

func TestClassesAndModifiers(t *testing.T) {
	t.Parallel()
	const million = 1_000_000
	in := usage.Tokens{Input: million}
	runPriceCases(t, shippedBook(t), []priceCase{
		{name: "nothing used", u: Usage{Model: "claude-opus-4-8"}, want: "0", saved: "0"},
		{
			name: "write of unknown lifetime", u: Usage{Model: "claude-opus-4-8", Tokens: usage.Tokens{CacheWrite: million}},
			want: "6.25", approx: true, saved: "-1.25",
		},
		{
			name: "remainder of a split", u: Usage{Model: "claude-opus-4-8", Tokens: usage.Tokens{
				CacheWrite: 3 * million, CacheWrite5m: million, CacheWrite1h: million,
			}},
			want: "22.5", approx: true, saved: "-7.5",
		},
		{
			name: "class without a price", u: Usage{Model: "gemini-2.5-pro", Tokens: usage.Tokens{Input: 1000, CacheRead: 5000}},
			want: "0.00125", saved: "null", lost: 5000,
		},
		{
			name: "only tokens without a price", u: Usage{Model: "gemini-2.5-pro", Tokens: usage.Tokens{CacheRead: 5000}, WebSearches: 1},
			want: "null", saved: "null", lost: 5000,
		},
		{
			name: "1 h write where the row has one lifetime", u: Usage{Model: "gpt-6-astra", Tokens: write1h(10)},
			want: "null", saved: "null", lost: 10,
		},
		{name: "no cache, nothing saved", u: Usage{Model: "gemini-2.5-pro", Tokens: usage.Tokens{Input: 1000}}, want: "0.00125", saved: "0"},
		{name: "savings", u: Usage{Model: "claude-opus-4-8", Tokens: usage.Tokens{
			Input: 7, Output: 7, CacheRead: million, CacheWrite: 2 * million, CacheWrite5m: million, CacheWrite1h: million,
		}}, want: "16.75021", saved: "-1.75"},
		{name: "savings with factors", u: Usage{Model: "claude-opus-4-8", Speed: SpeedFast, Tokens: usage.Tokens{CacheRead: million}}, want: "1", saved: "9"},

		{name: "batch", u: Usage{Model: "claude-opus-4-8", Tokens: in, Batch: true}, want: "2.5"},
		{name: "us", u: Usage{Model: "claude-opus-4-8", Tokens: in, InferenceGeo: "us"}, want: "5.5"},
		{name: "geo without a price", u: Usage{Model: "claude-opus-4-8", Tokens: in, InferenceGeo: "not_available"}, want: "5"},
		{name: "us before 4.6", u: Usage{Model: "claude-opus-4-5", Tokens: in, InferenceGeo: "us"}, want: "5"},
		{name: "fast ×6", u: Usage{Model: "claude-opus-4-6", Tokens: in, Speed: SpeedFast}, want: "30"},
		{name: "fast ×6 of 4.7", u: Usage{Model: "claude-opus-4-7", Tokens: in, Speed: SpeedFast}, want: "30"},
		{name: "fast ×2", u: Usage{Model: "claude-opus-4-8", Tokens: in, Speed: SpeedFast}, want: "10"},
		{name: "standard speed", u: Usage{Model: "claude-opus-4-8", Tokens: in, Speed: "standard"}, want: "5"},
		{name: "fast is not offered", u: Usage{Model: "claude-opus-5", Tokens: in, Speed: SpeedFast}, want: "5", approx: true},
		{name: "all factors", u: Usage{Model: "claude-opus-4-6", Tokens: in, Speed: SpeedFast, Batch: true, InferenceGeo: "us"}, want: "16.5"},
		{name: "web search is not multiplied", u: Usage{
			Model: "claude-opus-4-6", Tokens: in, Speed: SpeedFast, Batch: true, InferenceGeo: "us", WebSearches: 3,
		}, want: "16.53"},
		{name: "web search alone", u: Usage{Model: "claude-haiku-4-5", WebSearches: 1000}, want: "10"},
	})
}

func TestRounding(t *testing.T) {
	t.Parallel()
	// 0.0005 US$ per million is half a nano-dollar per token.
	b := overlay(t, `rows: [{model: tiny, input: 0.0005, cache_read: 0, cache_write_5m: 0.001, batch: 0.5}]`)
	runPriceCases(t, b, []priceCase{
		{name: "0.5 to even", u: Usage{Model: "tiny", Tokens: usage.Tokens{Input: 1}}, want: "0"},
		{name: "1.5 to even", u: Usage{Model: "tiny", Tokens: usage.Tokens{Input: 3}}, want: "0.000000002"},
		{name: "2.5 to even", u: Usage{Model: "tiny", Tokens: usage.Tokens{Input: 5}}, want: "0.000000002"},
		{name: "0.75 up", u: Usage{Model: "tiny", Tokens: usage.Tokens{Input: 3}, Batch: true}, want: "0.000000001"},
		{name: "1.25 down", u: Usage{Model: "tiny", Tokens: usage.Tokens{Input: 5}, Batch: true}, want: "0.000000001"},
		{
			name: "the sum is rounded, not its parts", want: "0.000000002", saved: "0",
			u: Usage{Model: "tiny", Tokens: usage.Tokens{Input: 1, CacheWrite: 1, CacheWrite5m: 1, CacheRead: 1}},
		},
		{name: "saved 1.5", u: Usage{Model: "tiny", Tokens: usage.Tokens{CacheRead: 3}}, want: "0", saved: "0.000000002"},
		{name: "lost 2.5", u: Usage{Model: "tiny", Tokens: write5m(5)}, want: "0.000000005", saved: "-0.000000002"},
	})
	runPriceCases(t, shippedBook(t), []priceCase{
		{name: "37.5", u: Usage{Model: "gemini-3.8-flash", Tokens: usage.Tokens{CacheRead: 1}, Batch: true}, want: "0.000000038"},
		{name: "112.5", u: Usage{Model: "gemini-3.8-flash", Tokens: usage.Tokens{CacheRead: 3}, Batch: true}, want: "0.000000112"},
	})
}

func TestMatching(t *testing.T) {
	t.Parallel()
	b := shippedBook(t)
	for name, want := range map[string]string{
		"claude-opus-5":                   "claude-opus-5@2026-07-24",
		"claude-opus-5-5":                 "claude-opus-5-5@2026-09-22",
		"claude-opus-5-5-20260922":        "claude-opus-5-5@2026-09-22",
		"claude-opus-4-1-20250805":        "claude-opus-4-1",
		"claude-opus-4-20250514":          "claude-opus-4",
		"claude-sonnet-4-20250514":        "claude-sonnet-4",
		"claude-3-7-sonnet-20250219":      "claude-sonnet-3-7",
		"claude-3-7-sonnet-latest":        "claude-sonnet-3-7",
		"claude-sonnet-4-0":               "claude-sonnet-4",
		"claude-opus-5-6":                 "",
		"claude-opus-5-20261399":          "",
		"claude-opus-5-2026":              "",
		"claude-opus-5-202609221":         "",
		"claude-opus-5-2026092x":          "",
		"claude-opus-5_20260922":          "",
		"claude-opus-5-20260922-v1":       "",
		"anthropic.claude-opus-5":         "",
		"Claude-Opus-5":                   "",
		"claude-opus-5 ":                  "",
		"claude-sonnet":                   "",
		"-20260922":                       "",
		"":                                "",
		"unknown":                         "",
		"<synthetic>":                     "",
		"claude-opus-5-20260922-20260922": "",
	} {
		p := b.Price(Usage{Model: name, Time: late})
		if id, _, _ := strings.Cut(p.Row, "#"); id != want || p.Computed.Valid != (want != "") {
			t.Errorf("%q: row %q, want %q", name, p.Row, want)
		}
	}
	snapshot := overlay(t, `rows: [{model: claude-opus-4-8-20260301, input: 1}]`)
	if p := snapshot.Price(Usage{Model: "claude-opus-4-8-20260301"}); !strings.HasPrefix(p.Row, "claude-opus-4-8-20260301#") {
		t.Errorf("an exact name must win over its dated form: %s", p.Row)
	}
}
