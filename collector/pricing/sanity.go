package pricing

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ErrRefused is wrapped by every error about the content of a price file.
var ErrRefused = errors.New("price file refused")

const (
	// maxRate: the dearest model ever sold by the token asked 600 US$ per
	// million. Above 1000 somebody mixed up tokens and millions.
	maxRate Rate = 1000_000_000
	// maxModified bounds a rate with all factors that raise it, in US$ per
	// million. Four classes of usage.MaxTokens at it cost 8·10⁸ US$, which with
	// MaxWebSearches of maxWebSearch stays below the 9.2·10⁹ of 64 bits.
	maxModified = 2000
	// maxWebSearch is a dollar per search; vendors ask one to four cents.
	maxWebSearch Rate = 1000_000_000
	// maxFactor: the largest factor known is 6.
	maxFactor = 100 * factorOne
	// maxWriteRatio: vendors ask 1.25 and 2 times the input price for a cache
	// write. A public price list once carried 24 (litellm#38056).
	maxWriteRatio = 4
	// maxOutputRatio: 23 is the largest known.
	maxOutputRatio = 50
	// maxThreshold is far above any context window.
	maxThreshold = 1_000_000_000
	maxName      = 200
)

// MaxWebSearches is the number of searches of one charge up to which its cost
// is certain to fit 64 bits.
const MaxWebSearches = 1_000_000_000

// check holds a row against the rules of sanity. Its error names the row and
// every rule that it breaks.
func (r Row) check() error {
	var broken []string
	rule := func(ok bool, format string, args ...any) {
		if !ok {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	r.checkRates(rule)
	r.checkFactors(rule)
	rule(r.AbovePromptTokens <= maxThreshold, "above_prompt_tokens %d is over %d", r.AbovePromptTokens, maxThreshold)
	if y := r.ValidFrom.Year(); !r.ValidFrom.IsZero() {
		rule(y >= 2000 && y < 2100, "valid_from %s is not in this century", formatTime(r.ValidFrom))
	}
	if len(broken) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: row %s: %s", ErrRefused, r.Source, r.ID(), strings.Join(broken, "; "))
}

func (r Row) checkRates(rule func(ok bool, format string, args ...any)) {
	in := r.Input.Rate
	rule(r.Input.Valid, "input has no price")
	for _, c := range []struct {
		name string
		rate NullRate
	}{
		{"input", r.Input},
		{"output", r.Output},
		{"cache_write_5m", r.CacheWrite5m},
		{"cache_write_1h", r.CacheWrite1h},
		{"cache_read", r.CacheRead},
	} {
		rule(c.rate.Rate <= maxRate, "%s %s is over %s US$ per million", c.name, c.rate, maxRate)
	}
	rule(r.WebSearch.Rate <= maxWebSearch, "web_search_per_thousand %s is over %s US$", r.WebSearch, maxWebSearch)
	if out := r.Output; out.Valid {
		rule(out.Rate >= in, "output %s < input %s", out, r.Input)
		rule(in == 0 || out.Rate <= maxOutputRatio*in, "output %s is over %d times input %s", out, maxOutputRatio, r.Input)
	}
	if w := r.CacheWrite5m; w.Valid {
		rule(w.Rate >= in, "cache_write_5m %s < input %s", w, r.Input)
		rule(w.Rate <= maxWriteRatio*in, "cache_write_5m %s is over %d times input %s", w, maxWriteRatio, r.Input)
	}
	if w := r.CacheWrite1h; w.Valid {
		rule(!r.CacheWrite5m.Valid || w.Rate >= r.CacheWrite5m.Rate, "cache_write_1h %s < cache_write_5m %s", w, r.CacheWrite5m)
		rule(w.Rate >= in, "cache_write_1h %s < input %s", w, r.Input)
		rule(w.Rate <= maxWriteRatio*in, "cache_write_1h %s is over %d times input %s", w, maxWriteRatio, r.Input)
	}
	if r.CacheRead.Valid {
		rule(r.CacheRead.Rate <= in, "cache_read %s > input %s", r.CacheRead, r.Input)
	}
}

func (r Row) checkFactors(rule func(ok bool, format string, args ...any)) {
	rule(r.Batch <= factorOne, "batch %s is over 1: it is a discount", r.Batch)
	for _, f := range []struct {
		name   string
		factor Factor
	}{{"us_inference", r.USInference}, {"fast", r.Fast}} {
		rule(f.factor == 0 || f.factor >= factorOne, "%s %s is under 1: it is a surcharge", f.name, f.factor)
		rule(f.factor <= maxFactor, "%s %s is over %s", f.name, f.factor, maxFactor)
	}
	top := uint64(max(r.Input.Rate, r.Output.Rate, r.CacheWrite5m.Rate, r.CacheWrite1h.Rate, r.CacheRead.Rate))
	if top > uint64(maxRate) || r.USInference > maxFactor || r.Fast > maxFactor {
		return // said already, and the product might overflow
	}
	// Divided between the factors, or 10⁹ × (10⁶)² would not fit. What the first
	// division cuts off is worth less than 100 pico-dollars per token.
	modified := top * uint64(max(r.USInference, factorOne)) / uint64(factorOne) * uint64(max(r.Fast, factorOne)) / uint64(factorOne)
	rule(modified <= maxModified*1_000_000, "with its factors the dearest token is over %d US$ per million", maxModified)
}

// checkName refuses what cannot be the name of a model.
func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("empty name")
	case len(s) > maxName:
		return fmt.Errorf("name of over %d bytes", maxName)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return fmt.Errorf("name %q with spaces or unprintable characters", s)
	}
	return nil
}
