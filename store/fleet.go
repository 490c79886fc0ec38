package store

import (
	"errors"
	"time"
)

// ErrNotHolder means that another replica exposes the fleet's counters by now,
// so that nothing was written.
var ErrNotHolder = errors.New("another replica exposes the fleet's counters")

// FleetAmount names one of the amounts that are counted of a run.
type FleetAmount int

// The amounts: tokens, and nano-dollars.
const (
	FleetInput FleetAmount = iota
	FleetOutput
	FleetCacheRead
	FleetCacheWrite
	FleetCost

	FleetAmountCount = 5
)

// FleetAmounts are one value of each, never negative.
type FleetAmounts [FleetAmountCount]int64

// FleetLabels are the labels that the fleet's counters carry of a charge.
type FleetLabels struct {
	Project string `json:"project,omitempty"`
	Repo    string `json:"repo,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Model   string `json:"model,omitempty"`
}

// FleetRun is what was counted of a run.
type FleetRun struct {
	Run string
	// High is the highest total that the ledger had: what was counted.
	High FleetAmounts
	// Parts are the amounts by label as the ledger had them last.
	Parts map[FleetLabels]FleetAmounts
	// LastCharge is the latest charge, by the ledger.
	LastCharge time.Time
}

// FleetKey names one exposed counter. The counter of the cost has no model.
type FleetKey struct {
	Amount FleetAmount
	FleetLabels
}

// FleetSeries is one exposed counter.
type FleetSeries struct {
	FleetKey
	Value int64
}

// FleetIncrease is by how much a counter rises.
type FleetIncrease struct {
	FleetSeries
	// Past is the part of it that was spent before anybody watched: it is no
	// rise to whoever reads the counter.
	Past int64
}
