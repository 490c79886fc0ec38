// Package ceiling says how much a task may spend: a file of limits by project,
// kind and model, the most specific of which wins for each limit by itself, and
// exact arithmetic over what crosses a threshold.
//
// A task's model, by which a ceiling is chosen, is its dominating one: that which
// most of its dollars went to, most of its tokens where nothing is priced, the
// first by name among equals. A file names models by the price book's own name;
// the caller gives that, not a dated one.
//
// The package is pure: apart from [LoadFile] it does no I/O, and a [Config] never
// changes, so any number of goroutines may use it.
package ceiling

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Limit is how much of one dimension is allowed, and who says so. The zero value
// is no limit.
type Limit struct {
	// Value is in the unit of its dimension; 0 is no limit.
	Value uint64
	// Source is where the limit was set or lifted: "ceilings.yaml:12",
	// [OverrideSource], or "" if nobody spoke of it.
	Source string
}

// Ceiling is the limits that hold for one task. The zero value limits nothing.
type Ceiling struct{ limits [dimensions]Limit }

// Of is the limit of one dimension.
func (c Ceiling) Of(d Dimension) Limit { return c.limits[d] }

// OverrideSource is the [Limit.Source] of what an [Override] set.
const OverrideSource = "override of the task"

// Override changes the ceiling of a single task. The zero value changes nothing.
type Override struct {
	// USD, Tokens and OutputTokens replace the limits of the whole task; nil
	// leaves what the file says. The limits per hour stay.
	USD                  *usage.Nano
	Tokens, OutputTokens *uint64
	// Exempt lifts every limit, those per hour and of the fan-out included.
	Exempt bool
}

// ErrOverride is wrapped by every error of [Override.Validate].
var ErrOverride = errors.New("override refused")

// Validate refuses what a file would be refused for, naming every field.
func (o Override) Validate() error {
	var errs []error
	refuse := func(field, rule string) { errs = append(errs, fmt.Errorf("%w: %s %s", ErrOverride, field, rule)) }
	if o.USD != nil && (*o.USD <= 0 || *o.USD > maxDollars*1e9) {
		refuse("usd", fmt.Sprintf("must be over 0 and at most %d; to lift the limit, exempt the task", int64(maxDollars)))
	}
	count := func(field string, v *uint64) {
		if v != nil && (*v == 0 || *v > MaxCount) {
			refuse(field, fmt.Sprintf("must be over 0 and at most %d; to lift the limit, exempt the task", uint64(MaxCount)))
		}
	}
	count("tokens", o.Tokens)
	count("output_tokens", o.OutputTokens)
	return errors.Join(errs...)
}

// With is the ceiling with a valid override on top.
func (c Ceiling) With(o Override) Ceiling {
	if o.Exempt {
		for d := range c.limits {
			c.limits[d] = Limit{Source: OverrideSource}
		}
		return c
	}
	if o.USD != nil {
		c.limits[TaskCost] = Limit{Value: uint64(*o.USD), Source: OverrideSource}
	}
	if o.Tokens != nil {
		c.limits[TaskTokens] = Limit{Value: *o.Tokens, Source: OverrideSource}
	}
	if o.OutputTokens != nil {
		c.limits[TaskOutputTokens] = Limit{Value: *o.OutputTokens, Source: OverrideSource}
	}
	return c
}

// Crossed are the thresholds, in percent of the limit, that the value has
// reached: value × 100 ≥ limit × threshold, exactly, whatever the size. A limit
// of 0 is no limit, and nothing crosses it.
func Crossed(limit, value uint64, thresholds []int) []int {
	if limit == 0 {
		return nil
	}
	var crossed []int
	vh, vl := bits.Mul64(value, 100)
	for _, t := range thresholds {
		if t < 0 {
			continue
		}
		th, tl := bits.Mul64(limit, uint64(t))
		if vh > th || vh == th && vl >= tl {
			crossed = append(crossed, t)
		}
	}
	return crossed
}
