package pricing

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// reference prices with rationals from the decimals of the row as text, sharing
// nothing with the fast path but the row that was chosen.
func reference(t testing.TB, row Row, u Usage) (cost, saved usage.NullNano) {
	t.Helper()
	rat := func(s string) *big.Rat {
		r, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("not a number: %q", s)
		}
		return r
	}
	times := func(n uint64, r *big.Rat) *big.Rat {
		return new(big.Rat).Mul(r, rat(big.NewInt(0).SetUint64(n).String()))
	}
	factor := big.NewRat(1, 1)
	for _, f := range []struct {
		on bool
		Factor
	}{{u.Batch, row.Batch}, {u.InferenceGeo == "us", row.USInference}, {u.Speed == "fast", row.Fast}} {
		if f.on && f.Factor != 0 {
			factor.Mul(factor, rat(f.String()))
		}
	}
	tk := u.Tokens
	sum, diff, lost, complete := new(big.Rat), new(big.Rat), false, true
	some := false
	for _, c := range []struct {
		n      uint64
		rate   NullRate
		cached bool
	}{
		{tk.Input, row.Input, false},
		{tk.Output, row.Output, false},
		{tk.CacheRead, row.CacheRead, true},
		{tk.CacheWrite - tk.CacheWrite1h, row.CacheWrite5m, true},
		{tk.CacheWrite1h, row.CacheWrite1h, true},
	} {
		if c.n == 0 {
			continue
		}
		if !c.rate.Valid {
			lost, complete = true, complete && !c.cached
			continue
		}
		some = true
		sum.Add(sum, times(c.n, rat(c.rate.String())))
		if c.cached {
			diff.Add(diff, times(c.n, rat(row.Input.String())))
			diff.Sub(diff, times(c.n, rat(c.rate.String())))
		}
	}
	perMillion := new(big.Rat).Mul(factor, rat("1000")) // nano-dollars per token
	sum.Mul(sum, perMillion)
	diff.Mul(diff, perMillion)
	if row.WebSearch.Valid {
		sum.Add(sum, times(u.WebSearches, new(big.Rat).Mul(rat(row.WebSearch.String()), rat("1000000"))))
	}
	fits := func(r *big.Rat) usage.NullNano {
		if new(big.Rat).Abs(r).Cmp(new(big.Rat).SetInt64(math.MaxInt64)) > 0 {
			return usage.NullNano{}
		}
		return usage.Some(usage.RoundNano(r))
	}
	if some || !lost {
		cost = fits(sum)
	}
	if complete {
		saved = fits(diff)
	}
	return cost, saved
}

// FuzzPrice holds the fast path against the reference.
func FuzzPrice(f *testing.F) {
	b := overlay(f, `
rows:
  - {model: odd, input: 0.000001, output: 0.00005, cache_read: 0.000001, cache_write_5m: 0.000003, batch: 0.3333, us_inference: 1.0001, fast: 7.7777, web_search_per_thousand: 0.000001}
  - {model: dear, input: 900.123457, output: 1000, cache_read: 899.999999, cache_write_5m: 901, cache_write_1h: 999.999999, batch: 0.9999, us_inference: 1.4141, fast: 1.4142, web_search_per_thousand: 1000}
`)
	models := []string{"odd", "dear"}
	for _, r := range b.Rows() {
		if r.ValidFrom.IsZero() || r.ValidFrom.Before(late) {
			models = append(models, r.Model)
		}
	}
	f.Add(uint8(0), uint8(0), uint64(1), uint64(2), uint64(3), uint64(4), uint64(5), uint64(6))
	f.Add(uint8(1), uint8(15), uint64(usage.MaxTokens), uint64(usage.MaxTokens), uint64(usage.MaxTokens), uint64(usage.MaxTokens), uint64(0), uint64(MaxWebSearches))
	f.Add(uint8(9), uint8(7), uint64(200_000), uint64(1), uint64(1), uint64(0), uint64(0), uint64(1))
	// Far outside the bounds of a charge: null or exact, never wrapped.
	f.Add(uint8(1), uint8(15), uint64(1)<<62, uint64(1)<<62, uint64(1)<<60, uint64(1)<<60, uint64(1)<<60, uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, model, flags uint8, in, out, read, w5, w1, searches uint64) {
		// Beyond 2⁶² sums of tokens wrap, which receivers exclude by far.
		const bound = 1<<61 - 1
		u := Usage{
			Model: models[int(model)%len(models)], Time: late, WebSearches: searches,
			Tokens: usage.Tokens{
				Input: in & bound, Output: out & bound, CacheRead: read & bound,
				CacheWrite: w5&bound + w1&bound, CacheWrite5m: w5 & bound, CacheWrite1h: w1 & bound,
			},
			Batch: flags&1 != 0, WholeRequest: flags&8 != 0,
		}
		if flags&2 != 0 {
			u.InferenceGeo = "us"
		}
		if flags&4 != 0 {
			u.Speed = SpeedFast
		}
		if flags&16 != 0 {
			u.Tokens.CacheWrite5m /= 2 // leaves a remainder
		}
		row, _ := b.find(&u)
		p := b.Price(u)
		cost, saved := reference(t, row.row, u)
		if p.Computed != cost || p.Savings != saved {
			t.Errorf("%+v\ngot  %+v\nwant %+v, savings %+v", u, p, cost, saved)
		}
	})
}

// TestFastPathEqualsReference is the property of FuzzPrice over amounts of real
// size, where nothing may fall back.
func TestFastPathEqualsReference(t *testing.T) {
	t.Parallel()
	b := shippedBook(t)
	rows := b.Rows()
	rnd := rand.New(rand.NewPCG(1, 2))
	size := func() uint64 { return rnd.Uint64N(usage.MaxTokens+1) >> rnd.UintN(40) }
	for range 20_000 {
		r := rows[rnd.IntN(len(rows))]
		u := Usage{
			Model: r.Model, Time: late.AddDate(1, 0, 0), WebSearches: size() % MaxWebSearches,
			Batch: rnd.IntN(2) == 0, WholeRequest: rnd.IntN(2) == 0,
			Tokens: usage.Tokens{Input: size(), Output: size(), CacheRead: size(), CacheWrite5m: size() / 2, CacheWrite1h: size() / 2},
		}
		u.Tokens.CacheWrite = u.Tokens.CacheWrite5m + u.Tokens.CacheWrite1h + rnd.Uint64N(2)
		if rnd.IntN(2) == 0 {
			u.Speed, u.InferenceGeo = SpeedFast, "us"
		}
		row, _ := b.find(&u)
		p := b.Price(u)
		cost, saved := reference(t, row.row, u)
		if p.Computed != cost || p.Savings != saved {
			t.Fatalf("%+v\ngot  %+v\nwant %+v, savings %+v", u, p, cost, saved)
		}
	}
}

// TestLargestAmountFits: the dearest row that loads, at the largest counters,
// fits 64 bits of nano-dollars.
func TestLargestAmountFits(t *testing.T) {
	t.Parallel()
	b := overlay(t, `rows:
  - {model: dearest, input: 1000, output: 1000, cache_read: 0, cache_write_5m: 1000, cache_write_1h: 1000, fast: 2, web_search_per_thousand: 1000}
  - {model: writes, input: 250, output: 1000, cache_read: 250, cache_write_5m: 1000, cache_write_1h: 1000, fast: 2, web_search_per_thousand: 1000}
`)
	for _, model := range []string{"dearest", "writes"} {
		for _, hour := range []uint64{0, usage.MaxTokens} {
			p := b.Price(Usage{
				Model: model, Speed: SpeedFast, WholeRequest: true, WebSearches: MaxWebSearches,
				Tokens: usage.Tokens{
					Input: usage.MaxTokens, Output: usage.MaxTokens, CacheRead: usage.MaxTokens,
					CacheWrite: usage.MaxTokens, CacheWrite1h: hour,
				},
			})
			if !p.Computed.Valid || p.Computed.Nano <= 0 || !p.Savings.Valid || p.UnpricedTokens != 0 {
				t.Errorf("%s: %+v", model, p)
			}
		}
	}
	// And all four classes at the bound of a modified rate.
	top := new(big.Rat).SetInt64(4 * (usage.MaxTokens / 1_000_000) * maxModified)
	top.Add(top, searchDollars(MaxWebSearches, maxWebSearch))
	if !nullable(nanos(top)).Valid {
		t.Errorf("%s US$ do not fit", top.FloatString(2))
	}
}

// TestTooLargeIsNull: what does not fit is unknown, never wrapped.
func TestTooLargeIsNull(t *testing.T) {
	t.Parallel()
	b := shippedBook(t)
	p := b.Price(Usage{Model: "claude-opus-4-8", WebSearches: math.MaxUint64, Tokens: usage.Tokens{Input: 5}})
	if p.Computed.Valid || p.UnpricedTokens != 5 {
		t.Errorf("%+v", p)
	}
	if e := b.Explain(Usage{Model: "claude-opus-4-8", WebSearches: math.MaxUint64}); e.Unpriced != "the amount exceeds 64 bits of nano-dollars" {
		t.Errorf("%+v", e)
	}
}

func TestWideOverflow(t *testing.T) {
	t.Parallel()
	const all = math.MaxUint64
	full := wide{hi: all, lo: all}
	sum := full
	sum.addProduct(1, 1)
	product := full
	product.multiply(2)
	for name, w := range map[string]wide{"sum": sum, "product": product, "quotient": full} {
		if n, ok := w.nano(1); ok {
			t.Errorf("%s: %d", name, n)
		}
	}
	if _, ok := (wide{lo: 1}).nano(all); ok {
		t.Error("a divisor of more than 64 bits")
	}
	if d, negative := (wide{hi: 1}).minus(wide{hi: 1, lo: 1}); !negative || d.lo != 1 || d.hi != 0 {
		t.Errorf("difference %+v, negative %t", d, negative)
	}
}

func benchmarkUsage() Usage {
	return Usage{
		Model: "claude-sonnet-4-5-20250929", Time: late, WholeRequest: true, InferenceGeo: "us", WebSearches: 1,
		Tokens: usage.Tokens{Input: 8, Output: 138, CacheRead: 150_000, CacheWrite: 16014, CacheWrite5m: 12011, CacheWrite1h: 4003},
	}
}

func TestPriceDoesNotAllocate(t *testing.T) {
	b, u := shippedBook(t), benchmarkUsage()
	if n := testing.AllocsPerRun(1000, func() { b.Price(u) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPrice(b *testing.B) {
	book, u := shippedBook(b), benchmarkUsage()
	b.ReportAllocs()
	for b.Loop() {
		book.Price(u)
	}
}
