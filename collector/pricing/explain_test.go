package pricing

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func explained(t *testing.T, b *Book, u Usage) string {
	t.Helper()
	var s strings.Builder
	if err := b.Explain(u).WriteText(&s); err != nil {
		t.Fatal(err)
	}
	return s.String()
}

func TestExplainText(t *testing.T) {
	t.Parallel()
	b := overlay(t, `rows:
  - {model: m, valid_from: 2026-01-01, input: 3, output: 15, cache_write_5m: 3.75, cache_read: 0.3333, fast: 2, us_inference: 1.1, web_search_per_thousand: 10}
  - {model: m, valid_from: 2026-01-01, above_prompt_tokens: 1000, input: 6}
`)
	got := explained(t, b, Usage{
		Model: "m-20260101", Time: late, WholeRequest: true, Speed: SpeedFast, InferenceGeo: "us", Batch: true, WebSearches: 2,
		Tokens: usage.Tokens{Input: 120, Output: 2400, CacheRead: 33, CacheWrite: 77, CacheWrite5m: 30, CacheWrite1h: 7},
	})
	want := `model:     m-20260101 (matched as m)
time:      2026-11-30T18:00:00Z
row:       ` + b.RowsOf("m")[0].Ref() + ` (user.yaml:2)
tier:      the lowest, up to 1000 prompt tokens (prompt: 230 tokens)
modifier:  us_inference × 1.1
modifier:  fast × 2

input           120 × 3 US$ per million      = 0.00036 × 1.1 × 2
output          2400 × 15 US$ per million    = 0.036 × 1.1 × 2
cache_read      33 × 0.3333 US$ per million  = 0.0000109989 × 1.1 × 2
cache_write_5m  70 × 3.75 US$ per million    = 0.0002625 × 1.1 × 2
cache_write_1h  7                            no price
web_search      2 × 10 US$ per thousand      = 0.02

exact:            0.10059369758 US$, rounded half to even to the nano-dollar:
cost:             0.100593698 US$ (approximate)
cache savings:    unknown
unpriced tokens:  7
note: 40 cache writes of unknown lifetime are priced as 5-minute writes
note: the row has no price for batches: standard price
note: modifiers apply to tokens, not to web searches
note: 7 tokens are of classes without a price and add nothing
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExplainUnpriced(t *testing.T) {
	t.Parallel()
	b := shippedBook(t)
	for name, c := range map[string]struct {
		u    Usage
		want string
	}{
		"unknown":   {Usage{Model: "acme-llm-7b", Time: late, Tokens: usage.Tokens{Input: 5}}, "no row for model acme-llm-7b"},
		"too early": {Usage{Model: "gpt-6.1-terra-20261026", Time: late.AddDate(0, -2, 0)}, "model gpt-6.1-terra has a price only from 2026-10-26 on"},
		"classes":   {Usage{Model: "gemini-2.5-pro", Tokens: usage.Tokens{CacheRead: 5}}, "no token of a class that the row has a price for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := b.Explain(c.u)
			if e.Unpriced != c.want {
				t.Errorf("unpriced: %q", e.Unpriced)
			}
			if text := explained(t, b, c.u); !strings.Contains(text, "unpriced:") || !strings.Contains(text, c.want) {
				t.Errorf("text:\n%s", text)
			}
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, null := range []string{`"computed_nano":null`, `"computed_usd":null`, `"exact_usd":null`} {
				if !strings.Contains(string(raw), null) {
					t.Errorf("JSON without %s: %s", null, raw)
				}
			}
		})
	}
}

func TestExplainTiersAndNotes(t *testing.T) {
	t.Parallel()
	b := shippedBook(t)
	long := usage.Tokens{Input: 250_000}
	for want, u := range map[string]Usage{
		"above 200000 prompt tokens, for the whole request":      {Model: "claude-sonnet-4", Tokens: long, WholeRequest: true},
		"the lowest, as the sizes of the requests are not known": {Model: "claude-sonnet-4", Tokens: long},
		"a counter of a tiered model: long prompts cost more":    {Model: "claude-sonnet-4", Tokens: long},
		"the only one":                                 {Model: "claude-opus-4-8", Tokens: long},
		"no price for fast mode: standard price":       {Model: "claude-opus-4-5", Speed: SpeedFast},
		"US inference of this model is not surcharged": {Model: "claude-opus-4-5", InferenceGeo: "us"},
	} {
		if got := explained(t, b, u); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	noSearch := overlay(t, "rows: [{model: m, input: 1}]")
	if got := explained(t, noSearch, Usage{Model: "m", WebSearches: 1}); !strings.Contains(got, "no price for web searches") || !strings.Contains(got, "(approximate)") {
		t.Errorf("text:\n%s", got)
	}
}

// TestExplainAddsUp: the lines, modified and added, are the exact amount, and
// that rounds to the price.
func TestExplainAddsUp(t *testing.T) {
	t.Parallel()
	b := shippedBook(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	rat := func(s string) *big.Rat {
		r, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("not a number: %q", s)
		}
		return r
	}
	for _, row := range b.Rows() {
		u := Usage{
			Model: row.Model, Time: late.AddDate(1, 0, 0), WholeRequest: true, Batch: true, Speed: SpeedFast, InferenceGeo: "us", WebSearches: 3,
			Tokens: usage.Tokens{Input: 1 + rnd.Uint64N(300_000), Output: rnd.Uint64N(9999), CacheRead: rnd.Uint64N(9999), CacheWrite: rnd.Uint64N(9999)},
		}
		e := b.Explain(u)
		sum, search := new(big.Rat), new(big.Rat)
		for _, l := range e.Lines {
			switch {
			case l.USD == nil:
			case l.Class == "web_search":
				search = rat(*l.USD)
			default:
				sum.Add(sum, rat(*l.USD))
			}
		}
		for _, m := range e.Modifiers {
			sum.Mul(sum, rat(m.Factor.String()))
		}
		sum.Add(sum, search)
		if e.Exact == nil || sum.Cmp(rat(*e.Exact)) != 0 {
			t.Fatalf("%s: lines add up to %s: %+v", row.ID(), sum.FloatString(20), e)
		}
		if got := usage.RoundNano(nanos(sum)); e.ComputedNano == nil || int64(got) != *e.ComputedNano {
			t.Errorf("%s: %s, not %+v", row.ID(), got, e.ComputedNano)
		}
	}
}
