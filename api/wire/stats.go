package wire

import "time"

// HandoffStats is the answer of GET /v1/handoffs/stats. Reads are best effort:
// what is derived from them says so. Tokens are approximate: a quarter of the
// bytes, rounded up. A pointer is null where there is nothing to measure.
type HandoffStats struct {
	AsOf              time.Time `json:"as_of"` // of everything that is open
	From              time.Time `json:"from"`  // inclusive; of read_after_write and continuations
	To                time.Time `json:"to"`    // exclusive
	StaleAfterSeconds float64   `json:"stale_after_seconds"`

	Open           HandoffAges    `json:"open"`
	OpenBy         []HandoffGroup `json:"open_by_project_and_kind"` // the largest first
	Stale          []OpenHandoff  `json:"stalest"`                  // at most 100, the longest untouched first
	NeverRead      []OpenHandoff  `json:"never_read"`               // likewise; best effort
	Size           HandoffSizes   `json:"open_size"`
	ReadAfterWrite ReadAfterWrite `json:"read_after_write"`
	Continuations  Continuations  `json:"continuations"`
}

// HandoffAges are counts of open handoffs and the ages of their last writes.
// Median and p95 are values that occur.
type HandoffAges struct {
	Count            uint64   `json:"count"`
	Stale            uint64   `json:"stale"`
	NeverRead        uint64   `json:"never_read"`         // in no revision; best effort
	UnreadSinceWrite uint64   `json:"unread_since_write"` // best effort
	OldestSeconds    *float64 `json:"oldest_seconds"`
	MedianSeconds    *float64 `json:"median_age_seconds"`
	P95Seconds       *float64 `json:"p95_age_seconds"`
}

// HandoffGroup are the open handoffs of one project and kind.
type HandoffGroup struct {
	Project string `json:"project"`
	Kind    string `json:"kind"`
	HandoffAges
}

// OpenHandoff is an open handoff without its body.
type OpenHandoff struct {
	HandoffKey        string    `json:"handoff_key"`
	Project           string    `json:"project"`
	Repo              string    `json:"repo"`
	Kind              string    `json:"kind"`
	UpdatedAt         time.Time `json:"updated_at"`
	AgeSeconds        float64   `json:"age_seconds"`
	Bytes             uint64    `json:"bytes"`
	ApproximateTokens uint64    `json:"approximate_tokens"`
	Reads             uint64    `json:"reads"` // of every revision; best effort
}

// HandoffSizes are the sizes of open handoffs' bodies.
type HandoffSizes struct {
	MedianBytes             *uint64       `json:"median_bytes"`
	P95Bytes                *uint64       `json:"p95_bytes"`
	MaxBytes                *uint64       `json:"max_bytes"`
	MedianApproximateTokens *uint64       `json:"median_approximate_tokens"`
	P95ApproximateTokens    *uint64       `json:"p95_approximate_tokens"`
	MaxApproximateTokens    *uint64       `json:"max_approximate_tokens"`
	Histogram               []HandoffSize `json:"histogram"`
}

// HandoffSize counts handoffs above the bound before and up to this one; null:
// of any size.
type HandoffSize struct {
	UpToBytes             *uint64 `json:"up_to_bytes"`
	UpToApproximateTokens *uint64 `json:"up_to_approximate_tokens"`
	Count                 uint64  `json:"count"`
}

// ReadAfterWrite says how soon the writes of the range were read: from a write
// to the first read of that revision.
type ReadAfterWrite struct {
	Writes        uint64   `json:"writes"`
	Read          uint64   `json:"read"` // of these
	MedianSeconds *float64 `json:"median_seconds"`
	P95Seconds    *float64 `json:"p95_seconds"`
	BestEffort    bool     `json:"best_effort"` // always
}

// Continuations estimates what going on from handoffs saved. One continuation
// is a run's first read, within the range, of a revision that another wrote.
type Continuations struct {
	Count     uint64 `json:"count"`
	Estimated uint64 `json:"estimated"`
	// Unknown: the writer's last context is not known, such as of runs of which
	// there are only counters.
	Unknown uint64 `json:"unknown"`
	// UnattributedReads: by nobody who is known as a run, such as people.
	UnattributedReads uint64 `json:"unattributed_reads"`

	ApproximateSavedTokens uint64 `json:"approximate_saved_tokens"`
	// ApproximateSavedUSD prices them as input; null if none has a price.
	ApproximateSavedUSD *string `json:"approximate_saved_usd"`
	UnpricedTokens      uint64  `json:"unpriced_tokens"` // of the saved ones

	BestEffort bool   `json:"best_effort"` // always
	Method     string `json:"method"`      // how it is estimated, in words
}
