package store

import (
	"time"

	"github.com/google/uuid"
)

// Handoff is one compact note per continuation key: what the next agent needs
// to go on. The latest write wins.
type Handoff struct {
	ID        uuid.UUID
	Key       string
	Project   string
	Repo      string // may be empty
	Kind      string // may be empty
	Body      string
	CreatedBy string // who wrote the key's first revision
	UpdatedBy string // who wrote this one
	// Revision counts the writes under the key, from 1, and goes on counting
	// after a delete: no two states of a key have the same.
	Revision  int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// KeptRevisions is how many revisions of a key are kept, the present one
// included.
const KeptRevisions = 20

// Revision is one state that a handoff had.
type Revision struct {
	Revision  int64
	Project   string
	Repo      string
	Kind      string
	Body      string
	WrittenBy string
	WrittenAt time.Time
	RequestID string
	// Restored is the revision that this one is a copy of; zero: none.
	Restored int64
}

// Precondition is what a write demands of the row that it replaces. The zero
// value demands nothing. A row that does not meet it is left alone and the
// write is an [ErrPrecondition].
type Precondition struct {
	// Revisions are those of which the row must have one (If-Match).
	Revisions []int64
	// Exists demands that there is a row, of whatever revision (If-Match: *).
	Exists bool
	// Absent demands that there is none (If-None-Match: *).
	Absent bool
}

// HandoffWrite is the upsert of a handoff. It replaces every field.
type HandoffWrite struct {
	Key     string
	Project string
	Repo    string
	Kind    string
	Body    string
	If      Precondition
}

// HandoffQuery selects handoffs, newest first. Zero fields select everything.
type HandoffQuery struct {
	Project string
	Repo    string
	Kind    string
	// UpdatedBefore selects what had no update since: what to groom.
	UpdatedBefore time.Time
	// Text is a full-text query in the syntax of web searches.
	Text string
	// Limit is the size of a page. Required.
	Limit int
	// After is the last row of the page before; zero: the first page.
	After HandoffPosition
}

// HandoffPosition is a place in the order of [HandoffQuery].
type HandoffPosition struct {
	UpdatedAt time.Time
	ID        uuid.UUID
}

// Position is the row's place in a list.
func (h *Handoff) Position() HandoffPosition { return HandoffPosition{h.UpdatedAt, h.ID} }
