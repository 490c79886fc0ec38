package pricing

import (
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Usage is what is to be priced: one call, or one increase of a counter.
type Usage struct {
	Model  string
	Time   time.Time // of the charge; chooses the effective row
	Tokens usage.Tokens
	// WebSearches are requests to the vendor's search tool.
	WebSearches uint64
	Speed       string // SpeedFast, or anything else for standard
	Batch       bool
	// InferenceGeo is where the vendor was told to run the model. Only "us" has
	// a price of its own.
	InferenceGeo string
	// WholeRequest says that the tokens are those of one request, so that its
	// prompt chooses the tier. False for counters, which sum requests of unknown
	// sizes: they are priced at the lowest tier.
	WholeRequest bool
}

// SpeedFast is the speed of the vendor's fast mode.
const SpeedFast = "fast"

// Price is what a usage costs.
type Price struct {
	// Computed is null if the model is not in the book at that time, if there
	// are tokens but none of a class with a price, or if the amount exceeds 64
	// bits (impossible for tokens up to [usage.MaxTokens] per field and searches
	// up to [MaxWebSearches]).
	Computed usage.NullNano
	// UnpricedTokens are those that Computed leaves out.
	UnpricedTokens uint64
	// Approximate says that Computed rests on an assumption: the lowest tier for
	// a counter of a tiered model, the 5-minute rate for cache writes of unknown
	// lifetime, or the standard price where the row lacks the price of what was
	// used (fast mode, batch, web search).
	Approximate bool
	// Savings are what the cache saved: reads × (input − read price) − writes ×
	// (write − input price), at the same tier and with the same factors. They
	// are negative while writes have not paid off, and null if a price is
	// missing.
	Savings usage.NullNano
	// Row is [Row.Ref] of the row that was used, "" if there is none.
	Row string
}

// The price classes.
const (
	classInput = iota
	classOutput
	classRead
	classWrite5m
	classWrite1h
	classes
)

// counts are tokens by price class.
type counts [classes]uint64

// countsOf splits tokens into classes. Rest is how many cache writes of unknown
// lifetime were put with the 5-minute writes: Anthropic's default lifetime, and
// the cheaper one.
func countsOf(t usage.Tokens) (c counts, rest uint64) {
	if known := t.CacheWrite5m + t.CacheWrite1h; t.CacheWrite > known {
		rest = t.CacheWrite - known
	}
	return counts{t.Input, t.Output, t.CacheRead, t.CacheWrite5m + rest, t.CacheWrite1h}, rest
}

// factorSet is a set of modifiers, as bits.
type factorSet uint8

const (
	factorBatch factorSet = 1 << iota
	factorUS
	factorFast
	factorSets // the number of sets
)

// compiled is a row made ready for arithmetic.
type compiled struct {
	row    Row
	ref    string
	rates  [classes]NullRate
	scales [factorSets]scale
}

// scale is the product of a set of factors as a reduced fraction. Three factors
// of four decimals keep both parts below 10¹⁸.
type scale struct{ num, den uint64 }

func compile(r Row) *compiled {
	c := &compiled{row: r, ref: r.Ref(), rates: [classes]NullRate{
		classInput: r.Input, classOutput: r.Output, classRead: r.CacheRead,
		classWrite5m: r.CacheWrite5m, classWrite1h: r.CacheWrite1h,
	}}
	for set := range factorSets {
		s := scale{1, 1}
		for _, f := range r.factors(set) {
			s.num *= uint64(f.Factor)
			s.den *= uint64(factorOne)
			d := gcd(s.num, s.den)
			s.num, s.den = s.num/d, s.den/d
		}
		c.scales[set] = s
	}
	return c
}

// factors are those of the set that the row has.
func (r Row) factors(set factorSet) []Modifier {
	var list []Modifier
	for _, m := range []struct {
		bit factorSet
		Modifier
	}{
		{factorBatch, Modifier{"batch", r.Batch}},
		{factorUS, Modifier{"us_inference", r.USInference}},
		{factorFast, Modifier{"fast", r.Fast}},
	} {
		if set&m.bit != 0 && m.Factor != 0 {
			list = append(list, m.Modifier)
		}
	}
	return list
}

// factorsOf is what modifies the price of u.
func factorsOf(u *Usage) factorSet {
	var set factorSet
	if u.Batch {
		set |= factorBatch
	}
	if strings.EqualFold(u.InferenceGeo, "us") {
		set |= factorUS
	}
	if u.Speed == SpeedFast {
		set |= factorFast
	}
	return set
}

// find is the row for u, and the era that it is part of; nil if unpriced.
func (b *Book) find(u *Usage) (*compiled, *era) {
	m := b.model(u.Model)
	if m == nil {
		return nil, nil
	}
	e := m.at(u.Time)
	if e == nil {
		return nil, nil
	}
	if !u.WholeRequest {
		return e.tiers[0], e
	}
	return e.tier(u.Tokens.Prompt()), e
}

// Price prices a usage. It does not allocate for amounts that fit 128-bit
// intermediates, which those of real usages do.
//
// Batch, US inference and fast mode multiply each other and every token price,
// not the price of web searches: vendors bill searches apart, and their
// discounts and surcharges are stated for tokens. US inference of a model whose
// row has no factor for it costs the standard price, exactly: such models are
// not surcharged.
func (b *Book) Price(u Usage) Price {
	row, era := b.find(&u)
	if row == nil {
		return Price{UnpricedTokens: u.Tokens.Total()}
	}
	c, rest := countsOf(u.Tokens)
	set := factorsOf(&u)
	p := Price{
		Row:         row.ref,
		Approximate: rest > 0 || !u.WholeRequest && len(era.tiers) > 1 || row.lacks(&u),
	}
	priced := false
	for class, n := range c {
		switch {
		case n == 0:
		case row.rates[class].Valid:
			priced = true
		default:
			p.UnpricedTokens += n
		}
	}
	if priced || p.UnpricedTokens == 0 {
		p.Computed = row.cost(&c, u.WebSearches, set)
	}
	if !p.Computed.Valid {
		p.UnpricedTokens = u.Tokens.Total()
	}
	p.Savings = row.savings(&c, set)
	return p
}

// lacks reports that u used something for which the row has no price.
func (r *compiled) lacks(u *Usage) bool {
	return u.Speed == SpeedFast && r.row.Fast == 0 ||
		u.Batch && r.row.Batch == 0 ||
		u.WebSearches > 0 && !r.row.WebSearch.Valid
}

func (r *compiled) cost(c *counts, searches uint64, set factorSet) usage.NullNano {
	var sum wide // pico-dollars, before the factors
	for class, n := range c {
		if n > 0 && r.rates[class].Valid {
			sum.addProduct(n, uint64(r.rates[class].Rate))
		}
	}
	s := r.scales[set]
	sum.multiply(s.num)
	if searches > 0 {
		var web wide
		// Micro-dollars per thousand searches are nano-dollars per search.
		web.addProduct(searches, uint64(r.row.WebSearch.Rate)*picoPerNano)
		web.multiply(s.den) // the division below undoes it
		sum.add(web)
	}
	if n, ok := sum.nano(s.den); ok {
		return usage.Some(n)
	}
	return nullable(r.exactCost(c, searches, set))
}

func (r *compiled) savings(c *counts, set factorSet) usage.NullNano {
	for _, class := range [...]int{classRead, classWrite5m, classWrite1h} {
		if c[class] > 0 && !r.rates[class].Valid {
			return usage.NullNano{}
		}
	}
	in := uint64(r.rates[classInput].Rate)
	var won, spent wide // sanity on load keeps every difference ≥ 0
	if n := c[classRead]; n > 0 {
		won.addProduct(n, in-uint64(r.rates[classRead].Rate))
	}
	for _, class := range [...]int{classWrite5m, classWrite1h} {
		if n := c[class]; n > 0 {
			spent.addProduct(n, uint64(r.rates[class].Rate)-in)
		}
	}
	s := r.scales[set]
	diff, negative := won.minus(spent)
	diff.multiply(s.num)
	if n, ok := diff.nano(s.den); ok {
		if negative { // half to even is symmetric about 0
			n = -n
		}
		return usage.Some(n)
	}
	return nullable(r.exactSavings(c, set))
}
