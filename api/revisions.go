package api

import (
	"net/http"
	"net/url"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store"
)

// listRevisions answers GET /handoffs/{key}/revisions. They are bounded by
// [store.KeptRevisions], so there are no pages.
func (s *server) listRevisions(w http.ResponseWriter, r *http.Request, n *note) error {
	key, err := pathKey(r)
	if err != nil {
		return err
	}
	if _, err := parameters(r); err != nil {
		return err
	}
	revisions, err := s.handoffs.Revisions(r.Context(), key)
	if err != nil {
		return err
	}
	n.key, n.count = key, len(revisions)
	envelope.JSON(w, http.StatusOK, wire.Revisions{Revisions: each(revisions, wireRevision), Count: len(revisions)})
	return nil
}

// restoreHandoff answers POST /handoffs/{key}/restore.
func (s *server) restoreHandoff(w http.ResponseWriter, r *http.Request, n *note) error {
	key, err := pathKey(r)
	if err != nil {
		return err
	}
	var in wire.Restore
	body, err := readJSON(r, smallBody, &in)
	if err != nil {
		return err
	}
	if in.Revision < 1 {
		return envelope.BadField("revision", "is missing or below 1", "GET /handoffs/{key}/revisions lists them")
	}
	condition, err := precondition(r.Header)
	if err != nil {
		return err
	}
	once, err := onceOf(r.Header, "POST /handoffs/"+url.PathEscape(key)+"/restore", body)
	if err != nil {
		return err
	}
	h, err := s.handoffs.RestoreHandoff(r.Context(), actor(w, r), once, key, in.Revision, condition)
	if err != nil {
		return err
	}
	n.key, n.project, n.count = h.Key, h.Project, 1
	if !n.replayedBy(w, once) {
		s.chat.handoffs.WithLabelValues("restore").Inc()
	}
	answerHandoff(w, http.StatusOK, &h)
	return nil
}

func wireRevision(v *store.Revision) wire.Revision {
	return wire.Revision{
		Revision: v.Revision, Project: v.Project, Repo: v.Repo, Kind: v.Kind, Body: v.Body,
		WrittenBy: v.WrittenBy, WrittenAt: v.WrittenAt.UTC(), RequestID: v.RequestID, Restored: v.Restored,
	}
}
