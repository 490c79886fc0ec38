package api

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/alerts/evaluate"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
)

// Tasks knows how tasks stand to their ceilings.
type Tasks interface {
	Standing(ctx context.Context, task string) (evaluate.Standing, error)
	All() (iter.Seq[evaluate.Standing], time.Time, error)
}

// Ceilings keeps what was set for single tasks.
type Ceilings interface {
	CeilingOverride(ctx context.Context, task string) (store.CeilingOverride, error)
	CeilingChanges(ctx context.Context, task string, limit int) ([]store.CeilingOverride, error)
	SetCeiling(ctx context.Context, a store.Actor, o store.CeilingOverride) (store.CeilingOverride, error)
	EndTask(ctx context.Context, a store.Actor, task string) (store.TaskEnd, error)
}

// taskSubresources are what follows a task's name in a path.
var taskSubresources = []string{"/ceiling", "/end"}

func (s *server) taskRoutes(r routes) {
	r.get("/v1/tasks", s.handle(s.listTasks))
	r.get("/v1/tasks/{task}", s.handle(s.getTask))
	r.get("/v1/tasks/{task}/ceiling", s.handle(s.getCeiling))
	r.admin(http.MethodPut, "/v1/tasks/{task}/ceiling", s.action("ceiling_set", slog.LevelInfo, s.setCeiling))
	r.admin(http.MethodPost, "/v1/tasks/{task}/end", s.action("task_end", slog.LevelInfo, s.endTask))
}

// getTask answers GET /v1/tasks/{task}.
func (s *server) getTask(w http.ResponseWriter, r *http.Request) error {
	task, err := pathTask(r)
	if err != nil {
		return err
	}
	if _, err := parameters(r); err != nil {
		return err
	}
	standing, err := s.tasks.Standing(r.Context(), task)
	if err != nil {
		return err
	}
	envelope.JSON(w, http.StatusOK, wireTask(&standing))
	return nil
}

// keptChanges is how many changes of a ceiling are shown.
const keptChanges = 100

// getCeiling answers GET /v1/tasks/{task}/ceiling.
func (s *server) getCeiling(w http.ResponseWriter, r *http.Request) error {
	task, err := pathTask(r)
	if err != nil {
		return err
	}
	if _, err := parameters(r); err != nil {
		return err
	}
	set, err := s.ceilings.CeilingOverride(r.Context(), task)
	if err != nil {
		return err
	}
	changes, err := s.ceilings.CeilingChanges(r.Context(), task, keptChanges)
	if err != nil {
		return err
	}
	envelope.JSON(w, http.StatusOK, wire.CeilingOverrides{CeilingOverride: wireOverride(&set), Changes: each(changes, wireOverride)})
	return nil
}

// setCeiling answers PUT /v1/tasks/{task}/ceiling. The task need not have spent
// anything yet.
func (s *server) setCeiling(w http.ResponseWriter, r *http.Request, n *note) error {
	task, err := pathTask(r)
	if err != nil {
		return err
	}
	var in wire.CeilingWrite
	if _, err := readJSON(r, smallBody, &in); err != nil {
		return err
	}
	o, err := overrideOf(task, &in)
	if err != nil {
		return err
	}
	set, err := s.ceilings.SetCeiling(r.Context(), actor(w, r), o)
	if err != nil {
		return err
	}
	n.task, n.count = task, 1
	envelope.JSON(w, http.StatusOK, wireOverride(&set))
	return nil
}

func overrideOf(task string, in *wire.CeilingWrite) (store.CeilingOverride, error) {
	o := store.CeilingOverride{Task: task, Tokens: in.Tokens, OutputTokens: in.OutputTokens, Exempt: in.Exempt}
	if in.USD != nil {
		nano, err := usage.ParseDollars(string(*in.USD))
		if err != nil || nano <= 0 {
			return o, envelope.BadField("usd", "must be dollars over 0, up to a million", "such as 12.5; to lift the limit, set exempt")
		}
		cost := int64(nano)
		o.CostNano = &cost
	}
	for name, tokens := range map[string]*int64{"tokens": in.Tokens, "output_tokens": in.OutputTokens} {
		if tokens != nil && (*tokens <= 0 || uint64(*tokens) > ceiling.MaxCount) {
			return o, envelope.BadField(name, "must be a number of tokens over 0", "to lift the limit, set exempt")
		}
	}
	return o, nil
}

// endTask answers POST /v1/tasks/{task}/end.
func (s *server) endTask(w http.ResponseWriter, r *http.Request, n *note) error {
	task, err := pathTask(r)
	if err != nil {
		return err
	}
	if _, err := parameters(r); err != nil {
		return err
	}
	end, err := s.ceilings.EndTask(r.Context(), actor(w, r), task)
	if err != nil {
		return err
	}
	n.task, n.count = task, 1
	envelope.JSON(w, http.StatusOK, wire.TaskEnd{Task: end.Task, EndedAt: end.At.UTC(), EndedBy: end.By})
	return nil
}

// maxTask is how long a label may be.
const maxTask = 1024

// pathTask is the task that [nameSegment] left in the path.
func pathTask(r *http.Request) (string, error) {
	task, err := url.PathUnescape(chi.URLParam(r, "task"))
	const field = "task"
	switch {
	case err != nil:
		return "", envelope.BadField(field, "is badly escaped", "percent-encode it")
	case strings.TrimSpace(task) == "":
		return "", envelope.BadField(field, "is missing", "name the task in the path")
	case len(task) > maxTask:
		return "", tooLong(field, maxTask)
	case !utf8.ValidString(task) || strings.ContainsRune(task, 0):
		return "", envelope.BadField(field, "is not UTF-8 without NUL", "name the task as the ledger has it")
	}
	return task, nil
}
