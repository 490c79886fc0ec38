package wire

import "time"

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
