package store

import (
	"time"

	"github.com/google/uuid"
)

// CeilingOverride is what somebody set for one task instead of the configured
// limits. A nil limit leaves the configured one.
type CeilingOverride struct {
	Task         string
	CostNano     *int64 // nano-dollars
	Tokens       *int64 // of all classes
	OutputTokens *int64
	// Exempt lifts every limit of the task.
	Exempt bool
	SetBy  string
	SetAt  time.Time
	// RequestID is that of the request that set it.
	RequestID string
}

// TaskEnd is the end of a task, as somebody said it.
type TaskEnd struct {
	Task string
	At   time.Time
	By   string
}

// AlertState is firing or resolved.
type AlertState string

// An alert fires until its task ends, its ceiling is raised, or it goes quiet.
const (
	Firing   AlertState = "firing"
	Resolved AlertState = "resolved"
)

// AlertID names an alert: one threshold of one limit of one task.
type AlertID struct {
	Task      string
	Alert     string // alertname
	Threshold int    // percent of the limit; 0: the alert has none
}

// TaskLabels are a task's labels as they were when it first crossed a
// threshold. Its alerts keep them, so that a task that changes its kind is one
// alert.
type TaskLabels struct{ Project, Repo, Kind string }

// Alert is a threshold that a task crossed.
type Alert struct {
	AlertID
	TaskLabels
	State AlertState
	// Episode counts the times that it began to fire, from 1.
	Episode int64
	// Value and Limit are as of the crossing: nano-dollars, tokens or a count.
	Value, Limit int64
	// Summary and Description are for people, as of the crossing.
	Summary, Description string
	// AsOf is the time of the ledger by which it was judged last: nobody who
	// sees an older ledger may judge otherwise.
	AsOf     time.Time
	StartsAt time.Time
	EndsAt   time.Time // zero while it fires
	Reason   string    // why it was resolved
}

// AlertChange is an alert that is to fire or to resolve. It happens only if
// the alert is as it was when the change was decided on.
type AlertChange struct {
	Alert
	// Seen is the episode that was seen; 0: no such alert, or one that was
	// resolved too long ago to be in a view.
	Seen int64
}

// AlertView is one consistent view of what ceilings depend on besides the
// ledger.
type AlertView struct {
	// At is the time of the database at which it was taken.
	At time.Time
	// Overrides and Ends are those set after the time that was asked for.
	Overrides []CeilingOverride
	Ends      []TaskEnd
	// Alerts are those that fire and those resolved a short while ago.
	Alerts []Alert
	// Judge is the configuration by which alerts are to be judged, "" for none:
	// the newest that a live replica has.
	Judge string
}

// AlertEvent is an alert that began or ceased to fire.
type AlertEvent struct {
	ID uuid.UUID
	At time.Time
	Alert
}
