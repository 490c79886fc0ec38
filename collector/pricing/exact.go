package pricing

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const picoPerNano = 1000

// wide is an unsigned 128-bit integer that remembers an overflow. The zero value
// is 0. It exists because a charge is priced for every fact that arrives, and
// big.Rat allocates some thirty times per charge.
type wide struct {
	hi, lo uint64
	over   bool
}

// addProduct adds a × b.
func (w *wide) addProduct(a, b uint64) {
	hi, lo := bits.Mul64(a, b)
	w.add(wide{hi: hi, lo: lo})
}

func (w *wide) add(v wide) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, v.lo, 0)
	w.hi, carry = bits.Add64(w.hi, v.hi, carry)
	w.over = w.over || v.over || carry != 0
}

func (w *wide) multiply(m uint64) {
	top, mid := bits.Mul64(w.hi, m)
	hi, lo := bits.Mul64(w.lo, m)
	var carry uint64
	w.lo = lo
	w.hi, carry = bits.Add64(mid, hi, 0)
	w.over = w.over || top != 0 || carry != 0
}

// minus is the distance between w and v, and whether v is the larger.
func (w wide) minus(v wide) (d wide, negative bool) {
	if w.hi < v.hi || w.hi == v.hi && w.lo < v.lo {
		w, v, negative = v, w, true
	}
	var borrow uint64
	d.lo, borrow = bits.Sub64(w.lo, v.lo, 0)
	d.hi, _ = bits.Sub64(w.hi, v.hi, borrow)
	d.over = w.over || v.over
	return d, negative
}

// nano divides pico-dollars by den and rounds half to even to the nano-dollar.
// It reports false if anything on the way, or the result, did not fit.
func (w wide) nano(den uint64) (usage.Nano, bool) {
	high, d := bits.Mul64(den, picoPerNano)
	if w.over || high != 0 || w.hi >= d {
		return 0, false
	}
	q, rem := bits.Div64(w.hi, w.lo, d)
	if q >= math.MaxInt64 {
		return 0, false
	}
	if rest := d - rem; rem > rest || rem == rest && q%2 == 1 {
		q++
	}
	return usage.Nano(q), true
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// nullable rounds an exact amount of nano-dollars. One that does not fit is
// unknown: a wrapped amount would be a lie.
func nullable(r *big.Rat) usage.NullNano {
	limit := new(big.Rat).SetInt64(math.MaxInt64)
	if new(big.Rat).Abs(r).Cmp(limit) > 0 {
		return usage.NullNano{}
	}
	return usage.Some(usage.RoundNano(r))
}

// The functions below say the same as the fast path in the plainest way. They
// serve amounts that overflow it, the explanation, and the tests that hold the
// two against each other.

// dollars is the exact price of n tokens of a class, without factors.
func dollars(n uint64, rate Rate) *big.Rat {
	perToken := new(big.Rat).SetFrac(new(big.Int).SetUint64(uint64(rate)), big.NewInt(1e12))
	return perToken.Mul(perToken, whole(n))
}

// searchDollars is the exact price of n web searches.
func searchDollars(n uint64, rate Rate) *big.Rat {
	perSearch := new(big.Rat).SetFrac(new(big.Int).SetUint64(uint64(rate)), big.NewInt(1e9))
	return perSearch.Mul(perSearch, whole(n))
}

func whole(n uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(n)) }

// product is the exact product of a set of factors.
func (r Row) product(set factorSet) *big.Rat {
	p := big.NewRat(1, 1)
	for _, f := range r.factors(set) {
		p.Mul(p, big.NewRat(int64(f.Factor), int64(factorOne)))
	}
	return p
}

func nanos(dollars *big.Rat) *big.Rat { return dollars.Mul(dollars, big.NewRat(1e9, 1)) }

// exactCost is the cost in nano-dollars, not rounded.
func (r *compiled) exactCost(c *counts, searches uint64, set factorSet) *big.Rat {
	sum := new(big.Rat)
	for class, n := range c {
		if r.rates[class].Valid {
			sum.Add(sum, dollars(n, r.rates[class].Rate))
		}
	}
	sum.Mul(sum, r.row.product(set))
	return nanos(sum.Add(sum, searchDollars(searches, r.row.WebSearch.Rate)))
}

// exactSavings is what the cache saved in nano-dollars, not rounded.
func (r *compiled) exactSavings(c *counts, set factorSet) *big.Rat {
	sum := new(big.Rat)
	for _, class := range [...]int{classRead, classWrite5m, classWrite1h} {
		n := c[class]
		if n == 0 {
			continue
		}
		sum.Add(sum, dollars(n, r.rates[classInput].Rate))
		sum.Sub(sum, dollars(n, r.rates[class].Rate))
	}
	return nanos(sum.Mul(sum, r.row.product(set)))
}
