package usage

import "time"

// Charge is what counts: one priced amount derived from facts, one per event
// and one per increase of a sample and label set. It is identified by Bucket,
// FactRun and ID; written again under the same identity, the newer derivation
// replaces the older.
type Charge struct {
	ID      ID
	FactRun string // the run as the fact says it, before any link
	Feed    Feed
	Time    time.Time // books the charge; its bucket follows from it
	Labels  Labels    // after links

	Requests    uint64 // 1 for a call; 0 means unknown for feeds of counters
	Tokens      Tokens
	WebSearches uint64

	Reported NullNano // what the source says
	Computed NullNano // what the price book says
	Cost     NullNano // what counts: computed, else reported, else unknown
	Savings  NullNano // what the cache saved, negative where writes cost more

	UnpricedTokens uint64 // tokens that no price was known for
	Approximate    bool   // request size or write lifetime was unknown
	Estimated      bool   // Cost is the reported one
	// Counted is false where a more trusted feed speaks of the same run and
	// model: the charge is kept for comparison and no sum includes it.
	Counted  bool
	PriceRow string // the row of the price book that priced it, "" if none
}

// Bucket is the start of the charge's bucket.
func (c *Charge) Bucket() time.Time { return Bucket(c.Time) }

// ActivityName says what an [Activity] counts.
type ActivityName string

// The activities that wrappers count. The value is stored, so it never changes.
const (
	ActivityTurns     ActivityName = "turns"
	ActivityTools     ActivityName = "tools"
	ActivityDurations ActivityName = "turn_durations"
)

// Activity is one increase of a counter that is not money: turns by result,
// tool calls by tool and outcome, turn durations. Identity as for [Charge].
type Activity struct {
	ID      ID
	FactRun string
	Feed    Feed
	Time    time.Time
	Labels  Labels

	Name    ActivityName
	Result  string // of turns
	Tool    string // of tool calls
	Outcome string // of tool calls
	Count   uint64
	Seconds float64   // of durations: their sum
	Bounds  []float64 // of durations: upper bounds in seconds
	Buckets []uint64  // of durations: cumulative increases per bound
}

// Bucket is the start of the activity's bucket.
func (a *Activity) Bucket() time.Time { return Bucket(a.Time) }

// RunSummary is what is known of a run that pushes samples.
type RunSummary struct {
	Run, Pod  string
	Labels    Labels
	Lives     uint64    // processes that ran under this run id
	FirstSeen time.Time // arrival of the first sample
	LastSeen  time.Time // arrival of the last sample
	Ended     time.Time // arrival of the end that no sample followed; else zero
}
