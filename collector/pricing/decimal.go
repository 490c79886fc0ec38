package pricing

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Rate is a price per unit, exact to a millionth of a dollar per million
// tokens: 6.25 US$ per million is 6 250 000. The same number is the price of
// one token in pico-dollars. Of a web search it is micro-dollars per thousand.
type Rate uint64

// NullRate is a rate that may be absent, which is not the same as free. The
// zero value is absent.
type NullRate struct {
	Rate  Rate
	Valid bool
}

// Factor multiplies rates, exact to a ten-thousandth: 1.1 is 11 000. Zero is
// absent: nothing is free by a factor.
type Factor uint64

const (
	// rateDecimals is three more than the finest price known to us (0.125 and
	// 0.075 US$ per million).
	rateDecimals   = 6
	factorDecimals = 4

	factorOne Factor = 10_000
)

var errDecimal = errors.New("not a plain decimal number")

// parseDecimal reads digits with at most one point as an integer of 10^-places
// units. No sign, no exponent, nothing that would have to be rounded.
func parseDecimal(s string, places int) (uint64, error) {
	whole, frac, point := strings.Cut(s, ".")
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("negative")
	}
	if whole == "" || point && frac == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, errDecimal
	}
	frac = strings.TrimRight(frac, "0")
	if len(frac) > places {
		return 0, fmt.Errorf("more than %d decimals", places)
	}
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > 9 { // far above every limit, far below overflow
		return 0, errors.New("absurdly large")
	}
	var n uint64
	for _, d := range whole + frac + strings.Repeat("0", places-len(frac)) {
		n = n*10 + uint64(d-'0')
	}
	return n, nil
}

// decimal is the inverse of parseDecimal, without trailing zeros.
func decimal(n uint64, places int) string {
	s := fmt.Sprintf("%0*d", places+1, n)
	cut := len(s) - places
	return strings.TrimSuffix(strings.TrimRight(s[:cut]+"."+s[cut:], "0"), ".")
}

// String is the rate in dollars per million tokens, such as "6.25".
func (r Rate) String() string { return decimal(uint64(r), rateDecimals) }

// String is the rate, or "" when it is absent.
func (r NullRate) String() string {
	if !r.Valid {
		return ""
	}
	return r.Rate.String()
}

// MarshalJSON writes the exact decimal as a number, or null.
func (r NullRate) MarshalJSON() ([]byte, error) {
	if !r.Valid {
		return []byte("null"), nil
	}
	return []byte(r.String()), nil
}

// String is the factor, such as "1.1", or "" when it is absent.
func (f Factor) String() string {
	if f == 0 {
		return ""
	}
	return decimal(uint64(f), factorDecimals)
}

// MarshalJSON writes the exact decimal as a number, or null.
func (f Factor) MarshalJSON() ([]byte, error) {
	if f == 0 {
		return []byte("null"), nil
	}
	return []byte(f.String()), nil
}

// exactDecimal writes a rational whose denominator divides a power of ten
// without rounding: every amount here is a product of decimals.
func exactDecimal(r *big.Rat) string {
	// Rates have 6 decimals and count per 10⁶ tokens, each of three factors
	// has 4: 24 at most.
	s := r.FloatString(24)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
