package usage

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Nano is an amount of US dollars in nano-dollars (10⁻⁹ US$). Money is never a
// float in the ledger.
type Nano int64

// NullNano is an amount that may be unknown, which is not the same as zero.
type NullNano struct {
	Nano  Nano `cbor:"1,keyasint,omitempty"`
	Valid bool `cbor:"2,keyasint,omitempty"`
}

// Some is a known amount.
func Some(n Nano) NullNano { return NullNano{Nano: n, Valid: true} }

// Plus adds what is known: the sum is unknown only if both are.
func (n NullNano) Plus(o NullNano) NullNano {
	return NullNano{Nano: n.Nano + o.Nano, Valid: n.Valid || o.Valid}
}

// Ptr is nil for an unknown amount: the form that database drivers take.
func (n NullNano) Ptr() *int64 {
	if !n.Valid {
		return nil
	}
	v := int64(n.Nano)
	return &v
}

// NullNanoOf is the inverse of [NullNano.Ptr].
func NullNanoOf(p *int64) NullNano {
	if p == nil {
		return NullNano{}
	}
	return Some(Nano(*p))
}

// String is the exact decimal in dollars without trailing zeros, such as
// "0.054399".
func (n Nano) String() string {
	sign, u := "", uint64(n)
	if n < 0 {
		sign, u = "-", -uint64(n)
	}
	s := fmt.Sprintf("%s%d.%09d", sign, u/1e9, u%1e9)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// ErrAmount is wrapped by every error of [ParseDollars].
var ErrAmount = errors.New("not an amount of dollars")

// maxDollars bounds one amount: a single call or counter that claims more is a
// mistake. 63 bits hold 9.2·10⁹ dollars, so that a sum is safe from 9 000 such
// mistakes.
const maxDollars = 1_000_000

// MaxAmount is the largest amount that [ParseDollars] reads. Who adds amounts
// up to one counter holds the sum to it too.
const MaxAmount Nano = maxDollars * 1e9

// ParseDollars reads a decimal number of dollars, plain or scientific, and
// rounds it half to even to the nano-dollar. Negative amounts, amounts over a
// million dollars and anything but a decimal number are refused.
func ParseDollars(s string) (Nano, error) {
	if n, ok := parsePlain(s); ok {
		return n, nil
	}
	return parseExact(strings.Clone(s)) // so that the caller's s stays on its stack
}

// parsePlain reads what nearly every source writes, digits with at most nine
// decimals below the bound, without arithmetic of arbitrary size. What it does not know, good
// or bad, is left to parseExact.
func parsePlain(s string) (Nano, bool) {
	whole, frac, dotted := strings.Cut(s, ".")
	if whole == "" || len(whole) > 6 || len(frac) > 9 || dotted && frac == "" {
		return 0, false
	}
	var n Nano
	for _, digits := range [...]string{whole, frac} {
		for i := range len(digits) {
			if digits[i] < '0' || digits[i] > '9' {
				return 0, false
			}
			n = 10*n + Nano(digits[i]-'0')
		}
	}
	for range 9 - len(frac) {
		n *= 10
	}
	return n, true
}

func parseExact(s string) (Nano, error) {
	// big.Rat would also read fractions, hexadecimal and exponents that need
	// gigabytes.
	if len(s) == 0 || len(s) > 64 || strings.Trim(s, "0123456789.+-eE") != "" {
		return 0, ErrAmount
	}
	if _, exp, ok := strings.Cut(strings.ToLower(s), "e"); ok && len(strings.Trim(exp, "+-")) > 2 {
		return 0, fmt.Errorf("%w: exponent out of range", ErrAmount)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, ErrAmount
	}
	if r.Sign() < 0 {
		return 0, fmt.Errorf("%w: negative", ErrAmount)
	}
	if r.Cmp(big.NewRat(maxDollars, 1)) > 0 {
		return 0, fmt.Errorf("%w: over %d dollars", ErrAmount, maxDollars)
	}
	return RoundNano(r.Mul(r, big.NewRat(1e9, 1))), nil
}

// RoundNano rounds an exact amount of nano-dollars half to even. The amount
// must fit 63 bits.
func RoundNano(r *big.Rat) Nano {
	q, m := new(big.Int), new(big.Int)
	q.DivMod(r.Num(), r.Denom(), m) // Euclidean: 0 ≤ m < denominator
	switch m.Lsh(m, 1).Cmp(r.Denom()) {
	case 1:
		q.Add(q, big.NewInt(1))
	case 0:
		if q.Bit(0) == 1 {
			q.Add(q, big.NewInt(1))
		}
	}
	return Nano(q.Int64())
}
