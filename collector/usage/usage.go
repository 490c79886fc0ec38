// Package usage holds the words of the ledger: what one source said about the
// consumption of one agent (a fact), the labels it carries, its tokens and its
// money. It is a leaf: it imports nothing of this module, does no I/O and keeps
// no state, so that receivers, the journal, the derivation and the store mean
// the same thing by the same name.
package usage

import "time"

// Feed is where a fact came from. Two feeds may describe the same spend; the
// derivation decides which of them counts.
type Feed string

// The feeds that exist. The value is stored, so it never changes.
const (
	FeedCall Feed = "call" // one model call, posted as JSON
	FeedPush Feed = "push" // cumulative counters of a wrapper process
)

// BucketSize is the finest grain of every published figure. A bucket is the
// half-open interval [start, start+BucketSize), aligned to the Unix epoch, UTC.
const BucketSize = 5 * time.Minute

// Bucket is the start of the bucket that t falls into.
func Bucket(t time.Time) time.Time { return t.UTC().Truncate(BucketSize) }

// Labels say who spent. Every label is an open string; "" means not said.
type Labels struct {
	Project string `cbor:"1,keyasint,omitempty"`
	Repo    string `cbor:"2,keyasint,omitempty"`
	Kind    string `cbor:"3,keyasint,omitempty"` // kind of work: implement, review, …
	Task    string `cbor:"4,keyasint,omitempty"` // unit of work; outlives runs
	Issue   string `cbor:"5,keyasint,omitempty"` // owner/repo#n
	Run     string `cbor:"6,keyasint,omitempty"` // one process of one agent
	Session string `cbor:"7,keyasint,omitempty"` // the agent's own conversation id
	Model   string `cbor:"8,keyasint,omitempty"`
	Effort  string `cbor:"9,keyasint,omitempty"`
	Agent   string `cbor:"10,keyasint,omitempty"` // subagent name; "" is the main agent
}

// Tokens are counted per price class. Input never includes cached tokens.
// CacheWrite is the total of all cache writes; CacheWrite5m and CacheWrite1h
// are the parts whose lifetime is known, so their sum never exceeds it.
type Tokens struct {
	Input        uint64 `cbor:"1,keyasint,omitempty"`
	Output       uint64 `cbor:"2,keyasint,omitempty"`
	CacheRead    uint64 `cbor:"3,keyasint,omitempty"`
	CacheWrite   uint64 `cbor:"4,keyasint,omitempty"`
	CacheWrite5m uint64 `cbor:"5,keyasint,omitempty"`
	CacheWrite1h uint64 `cbor:"6,keyasint,omitempty"`
}

// MaxTokens bounds one counter or one field of a call. It is far above anything
// real (a process that reads a full cache of a million tokens every second for
// a day) and low enough that sums of prices stay inside 64-bit nano-dollars.
const MaxTokens = 100_000_000_000

// Total is the number of tokens of all classes.
func (t Tokens) Total() uint64 { return t.Input + t.Output + t.CacheRead + t.CacheWrite }

// Prompt is the size of the request that price tiers compare: everything that
// was sent, cached or not.
func (t Tokens) Prompt() uint64 { return t.Input + t.CacheRead + t.CacheWrite }

// IsZero reports whether no token was counted.
func (t Tokens) IsZero() bool { return t == Tokens{} }

// Event is a fact about one model call.
type Event struct {
	ID       ID        `cbor:"1,keyasint"` // what the source says identifies the call
	Content  ID        `cbor:"2,keyasint"` // hash of everything said but the arrival
	SourceID string    `cbor:"3,keyasint,omitempty"`
	Feed     Feed      `cbor:"4,keyasint"`
	Time     time.Time `cbor:"5,keyasint"` // by the source, UTC, milliseconds
	Arrived  time.Time `cbor:"6,keyasint"` // by us

	Labels Labels `cbor:"7,keyasint"`
	Tokens Tokens `cbor:"8,keyasint"`

	WebSearches  uint64        `cbor:"9,keyasint,omitempty"`
	Speed        string        `cbor:"10,keyasint,omitempty"` // "fast" or ""
	Batch        bool          `cbor:"11,keyasint,omitempty"`
	InferenceGeo string        `cbor:"12,keyasint,omitempty"`
	Reported     NullNano      `cbor:"13,keyasint,omitempty"` // what the source says it cost
	Duration     time.Duration `cbor:"14,keyasint,omitempty"` // 0: not said
}

// Link ties a run to the keys that other feeds carry and fills labels that
// facts of the run leave empty. A later link of a run replaces the earlier one.
type Link struct {
	Run        string    `cbor:"1,keyasint"`
	Pod        string    `cbor:"2,keyasint,omitempty"`
	Task       string    `cbor:"3,keyasint,omitempty"`
	Session    string    `cbor:"4,keyasint,omitempty"`
	Issue      string    `cbor:"5,keyasint,omitempty"`
	HandoffKey string    `cbor:"6,keyasint,omitempty"`
	Kind       string    `cbor:"7,keyasint,omitempty"`
	Repo       string    `cbor:"8,keyasint,omitempty"`
	Project    string    `cbor:"9,keyasint,omitempty"`
	Effort     string    `cbor:"10,keyasint,omitempty"`
	Arrived    time.Time `cbor:"11,keyasint"`
}

// End says that a run's process announced its exit. It erases nothing, and one
// that is older than a sample of the run ends nothing.
type End struct {
	Run     string    `cbor:"1,keyasint"`
	Pod     string    `cbor:"2,keyasint,omitempty"`
	Arrived time.Time `cbor:"3,keyasint"`
}

// Facts are what one request brought: one record of the journal.
type Facts struct {
	Events  []Event  `cbor:"1,keyasint,omitempty"`
	Samples []Sample `cbor:"2,keyasint,omitempty"`
	Links   []Link   `cbor:"3,keyasint,omitempty"`
	Ends    []End    `cbor:"4,keyasint,omitempty"`

	Outcomes    []Outcome    `cbor:"5,keyasint,omitempty"`
	Annotations []Annotation `cbor:"6,keyasint,omitempty"`
}

// Len is the number of facts.
func (f *Facts) Len() int {
	return len(f.Events) + len(f.Samples) + len(f.Links) + len(f.Ends) + len(f.Outcomes) + len(f.Annotations)
}

// Key is the identity of everything that the link says.
func (l *Link) Key() ID {
	return Hash("link", l.Run, l.Pod, l.Task, l.Session, l.Issue, l.HandoffKey, l.Kind, l.Repo, l.Project, l.Effort)
}
