package usage

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Sample is a fact about one process: a cumulative snapshot of its counters.
type Sample struct {
	ID      ID        `cbor:"1,keyasint"` // of run, counters and push count
	Run     string    `cbor:"2,keyasint"`
	Pod     string    `cbor:"3,keyasint,omitempty"`
	Arrived time.Time `cbor:"4,keyasint"`
	// Pushes is how many pushes the process had attempted before this one. It
	// orders the snapshots of one process and tells two processes under one
	// run id apart. Wrappers that do not count their pushes leave it 0.
	Pushes   uint64   `cbor:"5,keyasint,omitempty"`
	Counters Counters `cbor:"6,keyasint"`
}

// Counters are the values of a sample, each list in the order of its labels.
type Counters struct {
	Tokens    []TokenCounter  `cbor:"1,keyasint,omitempty" json:"tokens,omitempty"`
	Costs     []CostCounter   `cbor:"2,keyasint,omitempty" json:"costs,omitempty"`
	Turns     []TurnCounter   `cbor:"3,keyasint,omitempty" json:"turns,omitempty"`
	Tools     []ToolCounter   `cbor:"4,keyasint,omitempty" json:"tools,omitempty"`
	Durations DurationCounter `cbor:"5,keyasint" json:"durations"`
}

// SampleLabels are the labels that a wrapper's token and cost series carry.
type SampleLabels struct {
	Project string `cbor:"1,keyasint,omitempty" json:"project,omitempty"`
	Repo    string `cbor:"2,keyasint,omitempty" json:"repo,omitempty"`
	Kind    string `cbor:"3,keyasint,omitempty" json:"kind,omitempty"`
	Model   string `cbor:"4,keyasint,omitempty" json:"model,omitempty"`
}

// TokenCounter counts the tokens of one label set. A wrapper does not split
// its cache writes by lifetime.
type TokenCounter struct {
	Labels     SampleLabels `cbor:"1,keyasint" json:"labels"`
	Input      uint64       `cbor:"2,keyasint,omitempty" json:"input,omitempty"`
	Output     uint64       `cbor:"3,keyasint,omitempty" json:"output,omitempty"`
	CacheRead  uint64       `cbor:"4,keyasint,omitempty" json:"cache_read,omitempty"`
	CacheWrite uint64       `cbor:"5,keyasint,omitempty" json:"cache_write,omitempty"`
}

// CostCounter counts dollars, rounded to the nano-dollar per value.
type CostCounter struct {
	Labels SampleLabels `cbor:"1,keyasint" json:"labels"`
	Cost   Nano         `cbor:"2,keyasint,omitempty" json:"cost_nano,omitempty"`
}

// TurnCounter counts turns by their terminal result.
type TurnCounter struct {
	Result string `cbor:"1,keyasint,omitempty" json:"result,omitempty"`
	Count  uint64 `cbor:"2,keyasint,omitempty" json:"count,omitempty"`
}

// ToolCounter counts tool calls.
type ToolCounter struct {
	Tool    string `cbor:"1,keyasint,omitempty" json:"tool,omitempty"`
	Outcome string `cbor:"2,keyasint,omitempty" json:"outcome,omitempty"`
	Count   uint64 `cbor:"3,keyasint,omitempty" json:"count,omitempty"`
}

// DurationCounter is the histogram of turn durations. Bounds are the finite
// upper bounds in seconds, ascending; Buckets are cumulative, one per bound.
type DurationCounter struct {
	Count   uint64    `cbor:"1,keyasint,omitempty" json:"count,omitempty"`
	Sum     float64   `cbor:"2,keyasint,omitempty" json:"sum_seconds,omitempty"`
	Bounds  []float64 `cbor:"3,keyasint,omitempty" json:"bounds,omitempty"`
	Buckets []uint64  `cbor:"4,keyasint,omitempty" json:"buckets,omitempty"`
}

// NewSample makes a sample of counters in any order. It sorts them in place
// and derives the identity.
func NewSample(run, pod string, arrived time.Time, pushes uint64, c Counters) (Sample, error) {
	slices.SortFunc(c.Tokens, func(a, b TokenCounter) int { return a.Labels.Compare(b.Labels) })
	slices.SortFunc(c.Costs, func(a, b CostCounter) int { return a.Labels.Compare(b.Labels) })
	slices.SortFunc(c.Turns, func(a, b TurnCounter) int { return cmp.Compare(a.Result, b.Result) })
	slices.SortFunc(c.Tools, func(a, b ToolCounter) int {
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Outcome, b.Outcome))
	})
	text, err := json.Marshal(c)
	if err != nil {
		return Sample{}, err
	}
	return Sample{
		// The pod is left out: run id and counters are what the process
		// says of itself; a proxy may rewrite the rest of the URL.
		ID:  Hash("sample", run, strconv.FormatUint(pushes, 10), string(text)),
		Run: run, Pod: pod, Arrived: arrived, Pushes: pushes, Counters: c,
	}, nil
}

// Compare orders label sets.
func (l SampleLabels) Compare(o SampleLabels) int {
	return cmp.Or(cmp.Compare(l.Project, o.Project), cmp.Compare(l.Repo, o.Repo),
		cmp.Compare(l.Kind, o.Kind), cmp.Compare(l.Model, o.Model))
}
