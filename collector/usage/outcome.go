package usage

import (
	"strconv"
	"time"
)

// The outcomes that are known. An outcome is an open string: these are what
// dashboards name.
const (
	ProposalAccepted = "proposal_accepted" // somebody took what was proposed
	ReviewFound      = "review_found"      // a review found something
	CIPassed         = "ci_passed"
	Delivered        = "delivered" // merged, released or handed over
	Churned          = "churned"   // the task's work was thrown away or begun anew
)

// Outcome is what came of a task. A task may have many.
type Outcome struct {
	ID      ID        `cbor:"1,keyasint"` // what the source says identifies it, else its content
	Time    time.Time `cbor:"2,keyasint"` // by the source, UTC, milliseconds
	Arrived time.Time `cbor:"3,keyasint"` // by us
	Task    string    `cbor:"4,keyasint"`
	Outcome string    `cbor:"5,keyasint"`
	Detail  string    `cbor:"6,keyasint,omitempty"` // for people
}

// Identify sets the id: of the id that the source gave, or of all that the
// outcome says but its arrival if that is "".
func (o *Outcome) Identify(source string) {
	if source != "" {
		o.ID = Hash("outcome", source)
		return
	}
	o.ID = Hash("outcome content", milliseconds(o.Time), o.Task, o.Outcome, o.Detail)
}

// Annotation is a remark at one moment, for people who look at figures over
// time: a changed tier, a release.
type Annotation struct {
	ID      ID        `cbor:"1,keyasint"`           // as of an outcome
	Time    time.Time `cbor:"2,keyasint"`           // by the source, UTC, milliseconds
	Arrived time.Time `cbor:"3,keyasint"`           // by us
	Project string    `cbor:"4,keyasint,omitempty"` // "": of all
	Text    string    `cbor:"5,keyasint"`
	Tags    []string  `cbor:"6,keyasint,omitempty"`
}

// Identify sets the id, as that of an outcome.
func (a *Annotation) Identify(source string) {
	if source != "" {
		a.ID = Hash("annotation", source)
		return
	}
	a.ID = Hash(append([]string{"annotation content", milliseconds(a.Time), a.Project, a.Text}, a.Tags...)...)
}

func milliseconds(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
