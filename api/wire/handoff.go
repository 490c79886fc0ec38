package wire

import (
	"strconv"
	"time"
)

// Handoff is one handoff, in every answer that has any.
type Handoff struct {
	ID         string    `json:"id"`
	HandoffKey string    `json:"handoff_key"`
	Project    string    `json:"project"`
	Repo       string    `json:"repo"`
	Kind       string    `json:"kind"`
	CreatedBy  string    `json:"created_by"`
	UpdatedBy  string    `json:"updated_by"`
	Body       string    `json:"body"`
	Revision   int64     `json:"revision"`
	ETag       string    `json:"etag"` // for If-Match
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// AppendJSON appends the handoff as encoding/json would write it.
func (h *Handoff) AppendJSON(b []byte) []byte {
	b = appendString(append(b, `{"id":`...), h.ID)
	b = appendString(append(b, `,"handoff_key":`...), h.HandoffKey)
	b = appendString(append(b, `,"project":`...), h.Project)
	b = appendString(append(b, `,"repo":`...), h.Repo)
	b = appendString(append(b, `,"kind":`...), h.Kind)
	b = appendString(append(b, `,"created_by":`...), h.CreatedBy)
	b = appendString(append(b, `,"updated_by":`...), h.UpdatedBy)
	b = appendString(append(b, `,"body":`...), h.Body)
	b = strconv.AppendInt(append(b, `,"revision":`...), h.Revision, 10)
	b = appendString(append(b, `,"etag":`...), h.ETag)
	b = appendTime(append(b, `,"created_at":`...), h.CreatedAt)
	b = appendTime(append(b, `,"updated_at":`...), h.UpdatedAt)
	return append(b, '}')
}

// HandoffWrite is the body of POST /handoffs.
type HandoffWrite struct {
	HandoffKey string `json:"handoff_key"`
	Project    string `json:"project"`
	Repo       string `json:"repo,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Body       string `json:"body"`
}

// Handoffs is the answer of GET /handoffs.
type Handoffs struct {
	Handoffs []Handoff `json:"handoffs"`
	Count    int       `json:"count"` // of this page
	Next     *string   `json:"next"`  // for after=; null at the end
}

// AppendJSON appends the answer as encoding/json would write it.
func (h *Handoffs) AppendJSON(b []byte) []byte {
	b = appendAll[Handoff](append(b, `{"handoffs":`...), h.Handoffs)
	b = strconv.AppendInt(append(b, `,"count":`...), int64(h.Count), 10)
	b = appendOptional(append(b, `,"next":`...), h.Next)
	return append(b, '}')
}

// Revision is one state that a handoff had.
type Revision struct {
	Revision  int64     `json:"revision"`
	Project   string    `json:"project"`
	Repo      string    `json:"repo"`
	Kind      string    `json:"kind"`
	Body      string    `json:"body"`
	WrittenBy string    `json:"written_by"`
	WrittenAt time.Time `json:"written_at"`
	RequestID string    `json:"request_id"`
	// Restored is the revision that this one is a copy of; absent: none.
	Restored int64 `json:"restored,omitempty"`
}

// Revisions is the answer of GET /handoffs/{key}/revisions, newest first.
type Revisions struct {
	Revisions []Revision `json:"revisions"`
	Count     int        `json:"count"`
}

// Restore is the body of POST /handoffs/{key}/restore.
type Restore struct {
	Revision int64 `json:"revision"`
}
