package receive

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json/jsontext"

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
	body, place, err := r.body(w, req, intake{linkBytes, r.room, bodyAlone})
	if err != nil {
		return link, err
	}
	defer place.leave()
	if link, err = readLink(body); err != nil {
		return link, err
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

// linkField is one field of a link by its name in JSON.
type linkField struct {
	name string
	to   *string
}

func (l *RunLink) fields() []linkField {
	return []linkField{
		{"run", &l.Run},
		{"pod", &l.Pod},
		{"task", &l.Task},
		{"session", &l.Session},
		{"issue", &l.Issue},
		{"handoff_key", &l.HandoffKey},
		{"kind", &l.Kind},
		{"repo", &l.Repo},
		{"project", &l.Project},
		{"effort", &l.Effort},
	}
}

func (r *Receiver) checkLink(l RunLink) error {
	for _, f := range l.fields() {
		if err := r.label(f.name, *f.to); err != nil {
			return err
		}
	}
	return nil
}

// readLink reads as strictly as calls are read: a link replaces the earlier
// one whole, so that a field misread is a label lost.
func readLink(body []byte) (RunLink, error) {
	var link RunLink
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	start, err := dec.ReadToken()
	if err != nil {
		return link, linkSyntax(err)
	}
	if start.Kind() != '{' {
		return link, refuse("wrong_type", "body", "is not a JSON object", "send one object of strings")
	}
	fields := link.fields()
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return link, linkSyntax(err)
		}
		i := slices.IndexFunc(fields, func(f linkField) bool { return f.name == name.String() })
		if i < 0 {
			return link, refuse("unknown_field", excerpt(name.String()), "is no field of a link", "see docs/api.md for the fields")
		}
		value, err := dec.ReadToken()
		switch {
		case err != nil:
			return link, linkSyntax(err)
		case value.Kind() == 'n': // null is absent, as in a call
		case value.Kind() != '"':
			return link, refuse("wrong_type", fields[i].name, "must be a string", "")
		default:
			*fields[i].to = value.String()
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return link, linkSyntax(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return link, refuse("unparsable", "body", "goes on after the JSON object", "send one object")
	}
	return link, nil
}

func linkSyntax(err error) error {
	return refuse("unparsable", cmp.Or(fieldOf(err), "body"), "is not JSON: "+jsonError(err), "send one object of strings")
}
