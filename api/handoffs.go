package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store"
)

// Handoffs is what the API needs of the store of handoffs. Every method
// returns the errors of package store.
type Handoffs interface {
	// PutHandoff creates or replaces the handoff of a key.
	PutHandoff(ctx context.Context, a store.Actor, once *store.Once, w store.HandoffWrite) (store.Handoff, error)
	Handoff(ctx context.Context, key string) (store.Handoff, error)
	Handoffs(ctx context.Context, q store.HandoffQuery) ([]store.Handoff, error)
	// DeleteHandoff reports whether there was one to delete.
	DeleteHandoff(ctx context.Context, a store.Actor, key string, p store.Precondition) (bool, error)
	// Revisions are those that are kept, newest first, of a deleted key too.
	Revisions(ctx context.Context, key string) ([]store.Revision, error)
	// RestoreHandoff writes an earlier revision again, as a new one.
	RestoreHandoff(ctx context.Context, a store.Actor, once *store.Once, key string, revision int64, p store.Precondition) (store.Handoff, error)
	// Recorded takes note of a read, if there is room for it; it never waits.
	Recorded(e store.Event)
}

// putHandoff answers POST /handoffs: the latest write wins.
func (s *server) putHandoff(w http.ResponseWriter, r *http.Request, n *note) error {
	var in wire.HandoffWrite
	body, err := readJSON(r, rawLimit(s.maxHandoff), &in)
	if err != nil {
		return err
	}
	if err := s.checkHandoff(in); err != nil {
		return err
	}
	condition, err := precondition(r.Header)
	if err != nil {
		return err
	}
	once, err := onceOf(r.Header, "POST /handoffs", body)
	if err != nil {
		return err
	}
	n.key, n.project, n.count = in.HandoffKey, in.Project, 1
	h, err := s.handoffs.PutHandoff(r.Context(), actor(w, r), once, store.HandoffWrite{
		Key: in.HandoffKey, Project: in.Project, Repo: in.Repo, Kind: in.Kind, Body: in.Body, If: condition,
	})
	if err != nil {
		return err
	}
	if !n.replayedBy(w, once) {
		s.chat.handoffs.WithLabelValues("write").Inc()
	}
	status := http.StatusOK
	if h.CreatedAt.Equal(h.UpdatedAt) {
		status = http.StatusCreated
		// Relative: whatever prefix a proxy adds stays.
		w.Header().Set("Location", "handoffs/"+url.PathEscape(h.Key))
	}
	answerHandoff(w, status, &h)
	return nil
}

func (s *server) checkHandoff(in wire.HandoffWrite) error {
	if err := checkKey(in.HandoffKey); err != nil {
		return err
	}
	return checkTexts(
		text{"project", in.Project, maxName, true},
		text{"repo", in.Repo, maxName, false},
		text{"kind", in.Kind, maxName, false},
		text{"body", in.Body, s.maxHandoff, true},
	)
}

// getHandoff answers GET /handoffs/{key}.
func (s *server) getHandoff(w http.ResponseWriter, r *http.Request, n *note) error {
	key, err := pathKey(r)
	if err != nil {
		return err
	}
	if _, err := parameters(r); err != nil {
		return err
	}
	unless, err := parseTags(r.Header, ifNoneMatch)
	if err != nil {
		return err
	}
	h, err := s.handoffs.Handoff(r.Context(), key)
	if err != nil {
		return err
	}
	n.key, n.project, n.count = h.Key, h.Project, 1
	if r.Method != http.MethodHead { // which reads nothing
		s.chat.handoffs.WithLabelValues("read").Inc()
		s.recordRead(actor(w, r), &h)
	}
	if unless.fits(h.Revision) {
		w.Header().Set("ETag", etag(h.Revision))
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	answerHandoff(w, http.StatusOK, &h)
	return nil
}

func (s *server) recordRead(a store.Actor, h *store.Handoff) {
	now := time.Now().UTC()
	s.handoffs.Recorded(store.Event{
		At: now, Action: store.HandoffRead, Actor: a.Name, RequestID: a.RequestID,
		Project: h.Project, Repo: h.Repo, Kind: h.Kind, Key: h.Key, Revision: h.Revision,
		Age: max(0, now.Sub(h.UpdatedAt)), Bytes: int64(len(h.Body)),
	})
}

// listHandoffs answers GET /handoffs.
func (s *server) listHandoffs(w http.ResponseWriter, r *http.Request, n *note) error {
	q, err := handoffQuery(r)
	if err != nil {
		return err
	}
	found := list[store.Handoff, wire.Handoff]{
		read: func(limit int) ([]store.Handoff, error) {
			q.Limit = limit
			return s.handoffs.Handoffs(r.Context(), q)
		},
		place: func(h *store.Handoff) (time.Time, uuid.UUID) { return h.UpdatedAt, h.ID },
		size:  func(h *store.Handoff) int { return len(h.Body) },
		wire:  wireHandoff,
	}
	var out wire.Handoffs
	if out.Handoffs, out.Next, err = found.page(q.Limit); err != nil {
		return err
	}
	out.Count = len(out.Handoffs)
	n.project, n.count = q.Project, out.Count
	s.chat.handoffs.WithLabelValues("list").Inc()
	envelope.JSON(w, http.StatusOK, &out)
	return nil
}

// maxSearch bounds a full-text query in characters: every word of it is work for
// the store.
const maxSearch = 256

func handoffQuery(r *http.Request) (q store.HandoffQuery, err error) {
	p, err := parameters(r, "project", "repo", "kind", "updated_before", "q", "limit", "after")
	if err != nil {
		return q, err
	}
	q.Project, q.Repo, q.Kind, q.Text = p.get("project"), p.get("repo"), p.get("kind"), p.get("q")
	if utf8.RuneCountInString(q.Text) > maxSearch {
		return q, envelope.BadField("q", fmt.Sprintf("is longer than %d characters", maxSearch), "search for fewer words")
	}
	if q.UpdatedBefore, err = p.instant("updated_before"); err != nil {
		return q, err
	}
	q.Limit, q.After.UpdatedAt, q.After.ID, err = p.place()
	return q, err
}

// deleteHandoff answers DELETE /handoffs/{key}. It is idempotent: revisions
// stay, so a handoff that was deleted can be restored.
func (s *server) deleteHandoff(w http.ResponseWriter, r *http.Request, n *note) error {
	key, err := pathKey(r)
	if err != nil {
		return err
	}
	condition, err := precondition(r.Header)
	if err != nil {
		return err
	}
	if condition.Absent {
		return envelope.BadField(ifNoneMatch, "is not for a delete", "use If-Match, or leave it out")
	}
	deleted, err := s.handoffs.DeleteHandoff(r.Context(), actor(w, r), key, condition)
	if err != nil {
		return err
	}
	n.key = key
	if deleted {
		n.count = 1
		s.chat.handoffs.WithLabelValues("delete").Inc()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func answerHandoff(w http.ResponseWriter, status int, h *store.Handoff) {
	w.Header().Set("ETag", etag(h.Revision))
	out := wireHandoff(h)
	envelope.JSON(w, status, &out)
}

func wireHandoff(h *store.Handoff) wire.Handoff {
	return wire.Handoff{
		ID: h.ID.String(), HandoffKey: h.Key, Project: h.Project, Repo: h.Repo, Kind: h.Kind,
		CreatedBy: h.CreatedBy, UpdatedBy: h.UpdatedBy, Body: h.Body, Revision: h.Revision, ETag: etag(h.Revision),
		CreatedAt: h.CreatedAt.UTC(), UpdatedAt: h.UpdatedAt.UTC(),
	}
}

func (s *server) handoffRoutes(r routes) {
	r.post("/handoffs", s.action("handoff_write", slog.LevelInfo, s.putHandoff))
	r.get("/handoffs", s.action("handoff_list", slog.LevelDebug, s.listHandoffs))
	r.get("/handoffs/{key}", s.action("handoff_read", slog.LevelDebug, s.getHandoff))
	r.delete("/handoffs/{key}", s.action("handoff_delete", slog.LevelInfo, s.deleteHandoff))
	r.get("/handoffs/{key}/revisions", s.action("handoff_revisions", slog.LevelDebug, s.listRevisions))
	r.post("/handoffs/{key}/restore", s.action("handoff_restore", slog.LevelInfo, s.restoreHandoff))
}
