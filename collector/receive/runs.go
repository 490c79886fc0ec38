package receive

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const feedLink = "link"

// RunLink is the body of PUT /v1/runs/{run}, and its answer.
type RunLink struct {
	Run        string `json:"run,omitempty"`
	Pod        string `json:"pod,omitempty"`
	Task       string `json:"task,omitempty"`
	Session    string `json:"session,omitempty"`
	Issue      string `json:"issue,omitempty"`
	HandoffKey string `json:"handoff_key,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Repo       string `json:"repo,omitempty"`
	Project    string `json:"project,omitempty"`
	Effort     string `json:"effort,omitempty"`
}

// linkBytes bounds the body of a link; a link is a handful of labels.
const linkBytes = 64 << 10

// Run links a run to its task, session and labels. It replaces the run's
// earlier link whole; the run's spend is labelled anew within a second.
func (r *Receiver) Run(w http.ResponseWriter, req *http.Request) {
	link, err := r.link(w, req)
	if err != nil {
		r.fail(w, feedLink, err)
		return
	}
	r.metrics.facts.WithLabelValues(feedLink).Inc()
	envelope.JSON(w, http.StatusOK, link)
}

func (r *Receiver) link(w http.ResponseWriter, req *http.Request) (RunLink, error) {
	var link RunLink
	run, err := pathRun(req)
	if err != nil || run == "" {
		return link, refuse("missing_run_id", "run", "is missing or badly escaped", "PUT /v1/runs/{run}, percent-encoded")
	}
	body, done, err := r.body(w, req, linkBytes)
	if err != nil {
		return link, err
	}
	defer done()
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&link); err != nil {
		return link, linkError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return link, refuse("unparsable", "body", "goes on after the JSON object", "send one object")
	}
	if link.Run != "" && link.Run != run {
		return link, refuse("bad_value", "run", "differs from the run in the path", "leave it out")
	}
	link.Run = run
	if err := r.checkLink(link); err != nil {
		return link, err
	}
	return link, r.keep(req.Context(), &usage.Facts{Links: []usage.Link{{
		Run: run, Pod: link.Pod, Task: link.Task, Session: link.Session, Issue: link.Issue,
		HandoffKey: link.HandoffKey, Kind: link.Kind, Repo: link.Repo, Project: link.Project,
		Effort: link.Effort, Arrived: r.now(),
	}}})
}

// pathRun is the run of the path. The router hands out a part of the raw path
// where there is one, and of the decoded one otherwise.
func pathRun(req *http.Request) (string, error) {
	run := chi.URLParam(req, "run")
	if req.URL.RawPath == "" {
		return run, nil
	}
	return url.PathUnescape(run)
}

func (r *Receiver) checkLink(l RunLink) error {
	for _, f := range []struct{ name, value string }{
		{"run", l.Run},
		{"pod", l.Pod},
		{"task", l.Task},
		{"session", l.Session},
		{"issue", l.Issue},
		{"handoff_key", l.HandoffKey},
		{"kind", l.Kind},
		{"repo", l.Repo},
		{"project", l.Project},
		{"effort", l.Effort},
	} {
		if err := r.label(f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

func linkError(err error) error {
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typ):
		return refuse("wrong_type", typ.Field, "must be a string", "")
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
		return refuse("unknown_field", excerpt(name), "is no field of a link", "see docs/api.md for the fields")
	default:
		return refuse("unparsable", "body", "is not a JSON object", "send one object of strings")
	}
}
