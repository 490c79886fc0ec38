package ceiling

import (
	"strconv"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Dimension is one thing that a ceiling limits, in one scope: a whole task, an
// hour of it, or one of its sessions.
type Dimension uint8

// The dimensions. Values and limits of TaskCost and HourCost are nano-dollars,
// those of all others are counts. An hour is the last 12 buckets of five minutes
// and the current one.
const (
	TaskCost Dimension = iota
	TaskTokens
	TaskOutputTokens
	TaskRuns
	HourCost
	HourTokens
	HourOutputTokens
	HourRuns
	SessionSubagents

	dimensions
)

// names are the scope and the key of a dimension in the file, and its alert.
var names = [...]struct{ scope, key, alert string }{
	TaskCost:         {"task", "usd", "TaskCostCeiling"},
	TaskTokens:       {"task", "tokens", "TaskTokenCeiling"},
	TaskOutputTokens: {"task", "output_tokens", "TaskOutputTokenCeiling"},
	TaskRuns:         {"task", "runs", "TaskRunsCeiling"},
	HourCost:         {"hour", "usd", "TaskHourlyCostCeiling"},
	HourTokens:       {"hour", "tokens", "TaskHourlyTokenCeiling"},
	HourOutputTokens: {"hour", "output_tokens", "TaskHourlyOutputTokenCeiling"},
	HourRuns:         {"hour", "runs", "TaskHourlyRunsCeiling"},
	SessionSubagents: {"session", "subagents", "SessionSubagentsCeiling"},
}

// Dimensions are all dimensions in a fixed order.
func Dimensions() []Dimension {
	all := make([]Dimension, dimensions)
	for i := range all {
		all[i] = Dimension(i)
	}
	return all
}

// String is the dimension as the file names it, such as "task.usd".
func (d Dimension) String() string { return names[d].scope + "." + names[d].key }

// Scope is task, hour or session.
func (d Dimension) Scope() string { return names[d].scope }

// Alert is the alertname of what crosses a threshold of this dimension.
func (d Dimension) Alert() string { return names[d].alert }

// Money reports whether values are nano-dollars.
func (d Dimension) Money() bool { return d == TaskCost || d == HourCost }

// Format writes a value for people: "$12.5", or a plain count.
func (d Dimension) Format(value uint64) string {
	if d.Money() && value <= 1<<63-1 {
		return "$" + usage.Nano(value).String()
	}
	return strconv.FormatUint(value, 10)
}
