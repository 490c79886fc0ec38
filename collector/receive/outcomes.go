package receive

import (
	"net/http"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const (
	feedOutcome = "outcome"
	// outcomeBytes bounds an outcome: a word that dashboards group by.
	outcomeBytes = 128
	// textBytes bounds what is for people.
	textBytes = 4096
)

// Outcomes receives what came of tasks: one JSON object, an array, or one
// object per line, answered as calls are. The same outcome counts once: that of
// the same id, and without an id that of the same content.
func (r *Receiver) Outcomes(w http.ResponseWriter, req *http.Request) {
	post(r, w, req, posting[usage.Outcome]{
		feed: feedOutcome, plural: "outcomes", reader: r.outcomeReader,
		facts: func(outcomes []usage.Outcome) *usage.Facts { return &usage.Facts{Outcomes: outcomes} },
	})
}

func (r *Receiver) outcomeReader() func(value []byte, to *usage.Outcome) error {
	in, fields := r.objects("an outcome"), quoted("id", "ts", "task", "outcome", "detail")
	return func(value []byte, to *usage.Outcome) error {
		*to = usage.Outcome{Arrived: in.arrived}
		var source string
		err := in.object(value, fields, func(name string) error {
			switch name {
			case "id":
				return in.text(name, &source, r.cfg.LabelBytes)
			case "ts":
				return in.time(name, &to.Time)
			case "task":
				return in.text(name, &to.Task, r.cfg.LabelBytes)
			case "outcome":
				return in.text(name, &to.Outcome, outcomeBytes)
			default:
				return in.text(name, &to.Detail, textBytes)
			}
		})
		switch {
		case err != nil:
			return err
		case to.Time.IsZero():
			return refuse("missing_ts", "ts", "is missing", "say when it came out so, in RFC 3339")
		case to.Task == "":
			return refuse("missing_task", "task", "is missing", "say of which task")
		case to.Outcome == "":
			return refuse("missing_outcome", "outcome", "is missing", "say what came of the task, such as "+usage.CIPassed)
		}
		to.Identify(source)
		return nil
	}
}
