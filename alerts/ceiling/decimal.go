package ceiling

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// maxDollars is the largest amount of a limit or budget: a billion dollars of
	// nano-dollars fit 63 bits nine times.
	maxDollars = 1_000_000_000
	// MaxCount is far above any fleet's tokens.
	MaxCount = 1_000_000_000_000_000
)

// parseDecimal reads a positive number, digits with at most one point, as an
// integer of 10^-places units that is at most that many whole ones. Underscores may
// part digits. No sign, no exponent, nothing that would have to be rounded.
func parseDecimal(s string, places int, most uint64) (uint64, error) {
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("is negative")
	}
	whole, frac, point := strings.Cut(s, ".")
	if !digits(whole) || point && !digits(frac) {
		if places == 0 {
			return 0, errors.New("is not a whole number")
		}
		return 0, errors.New("is not a plain decimal number")
	}
	whole = strings.TrimLeft(strings.ReplaceAll(whole, "_", ""), "0")
	frac = strings.TrimRight(strings.ReplaceAll(frac, "_", ""), "0")
	switch {
	case len(frac) > places && places == 0:
		return 0, errors.New("is not a whole number")
	case len(frac) > places:
		return 0, fmt.Errorf("has more than %d decimals", places)
	case len(whole) > 16: // no overflow below: most is shorter
		return 0, fmt.Errorf("is over %d", most)
	}
	var n uint64
	for _, d := range whole {
		n = n*10 + uint64(d-'0')
	}
	if n > most || n == most && frac != "" {
		return 0, fmt.Errorf("is over %d", most)
	}
	for _, d := range frac + strings.Repeat("0", places-len(frac)) {
		n = n*10 + uint64(d-'0')
	}
	if n == 0 {
		return 0, errors.New("is zero")
	}
	return n, nil
}

// digits reports whether s is digits, parted by single underscores or not.
func digits(s string) bool {
	last := byte('_')
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < '0' || c > '9') || c == '_' && last == '_' {
			return false
		}
		last = s[i]
	}
	return last != '_'
}
