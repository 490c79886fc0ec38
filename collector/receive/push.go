package receive

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const feedPush = string(usage.FeedPush)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// Push receives the pushes of wrappers: POST replaces nothing, it adds a
// snapshot of the run's counters; DELETE says that the process exits, and
// erases nothing. Both answer 204 once durable. A push is one fact: a line
// that cannot be read refuses it whole, since a snapshot that lost a series
// looks like a new process.
func (r *Receiver) Push(w http.ResponseWriter, req *http.Request) {
	if err := r.push(w, req); err != nil {
		r.fail(w, feedPush, err)
		return
	}
	r.metrics.facts.WithLabelValues(feedPush).Inc()
	w.WriteHeader(http.StatusNoContent)
}

func (r *Receiver) push(w http.ResponseWriter, req *http.Request) error {
	if req.Method != http.MethodPost && req.Method != http.MethodDelete {
		w.Header().Set("Allow", "POST, DELETE")
		return &refusal{"method", &envelope.Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed", Hint: "POST a snapshot or DELETE the run"}}
	}
	run, pod, err := r.pushIdentity(req.URL.Query())
	if err != nil {
		return err
	}
	arrived := r.now()
	if req.Method == http.MethodDelete {
		r.forward.Send(req.Method, req.URL.RawQuery, req.Header, nil)
		return r.keep(req.Context(), &usage.Facts{Ends: []usage.End{{Run: run, Pod: pod, Arrived: arrived}}})
	}
	body, place, err := r.body(w, req, intake{r.cfg.PushBytes, r.pushRoom, bodyAlone})
	if err != nil {
		return err
	}
	defer place.leave()
	// The operator's own receiver judges for itself what it takes.
	r.forward.Send(req.Method, req.URL.RawQuery, req.Header, body)
	pushes, counters, err := r.exposition(body)
	if err != nil {
		return err
	}
	sample, err := usage.NewSample(run, pod, arrived, pushes, counters)
	if err != nil {
		return err
	}
	return r.keep(req.Context(), &usage.Facts{Samples: []usage.Sample{sample}})
}

func (r *Receiver) pushIdentity(q url.Values) (run, pod string, err error) {
	run, pod = q.Get("run_id"), q.Get("pod")
	if run == "" {
		return "", "", refuse("missing_run_id", "run_id", "a push without run_id belongs to no run", "add ?run_id=<RUN_ID> to the push URL")
	}
	if err := r.label("run_id", run); err != nil {
		return "", "", err
	}
	return run, pod, r.label("pod", pod)
}

// label checks what every label must be.
func (r *Receiver) label(field, v string) error {
	if len(v) > r.cfg.LabelBytes {
		return tooLong(field, r.cfg.LabelBytes)
	}
	if !utf8.ValidString(v) {
		return refuse("invalid_utf8", field, "is not valid UTF-8", "encode it as UTF-8")
	}
	if strings.ContainsRune(v, 0) {
		return withNUL(field)
	}
	return nil
}

// withNUL refuses a text that Postgres, which keeps tasks that are over their
// ceilings, could not hold.
func withNUL(field string) error {
	return refuse("nul_character", excerpt(field), "contains a NUL character", "leave it out")
}

func tooLong(field string, limit int) error {
	return refuse("label_too_long", excerpt(field), "is longer than "+strconv.Itoa(limit)+" bytes", "shorten it")
}

// maxExcerpt bounds what an error repeats of a request: its text may be as
// long as the body, once per call.
const maxExcerpt = 200

// excerpt is the start of s.
func excerpt(s string) string {
	if len(s) <= maxExcerpt {
		return s
	}
	return strings.ToValidUTF8(s[:maxExcerpt], "") + "…"
}
