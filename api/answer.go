package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// statusClientGone is what proxies call a request whose client went away.
const statusClientGone = 499

// handle adapts a handler that returns its error. An error that a client may
// not see is logged here, once.
func (s *server) handle(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		if r.Context().Err() != nil {
			// Nobody reads this; it keeps clients that went away apart from
			// failures in the metrics.
			w.WriteHeader(statusClientGone)
			return
		}
		status := envelope.Fail(w, answerOf(err))
		if status < http.StatusInternalServerError {
			return
		}
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "status", status,
			"request_id", w.Header().Get(envelope.RequestIDHeader), "error", err)
	}
}

// answerOf is what a client sees of an error: the one place where the errors of
// stores become statuses.
func answerOf(err error) error {
	var known *envelope.Error
	var absent *store.MissingError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &absent):
		return missing(absent.What)
	case errors.Is(err, store.ErrNotFound):
		return missing("")
	case errors.Is(err, store.ErrPrecondition):
		return refused(http.StatusPreconditionFailed, "", "the handoff is not in the state that If-Match or If-None-Match demands", "read it again, merge, and send its new etag")
	case errors.Is(err, store.ErrOtherProject):
		return refused(http.StatusConflict, "project", "is not the one that the key belongs to", "use another key, or delete the handoff first")
	case errors.Is(err, store.ErrArchived):
		return refused(http.StatusConflict, "room", "is archived", "create a new room; this one can still be read")
	case errors.Is(err, store.ErrAmbiguous):
		return refused(http.StatusBadRequest, "target", "fits more than one participant", "use the participant's id")
	case errors.Is(err, store.ErrBeyond):
		return refused(http.StatusBadRequest, "last_seen_id", "is beyond the room's last message", "send the id of a message that was read")
	case errors.Is(err, store.ErrKeyReused):
		return refused(http.StatusUnprocessableEntity, idempotencyKey, "was used for another request", "make a new key for every new request")
	case errors.Is(err, store.ErrTooBroad):
		return envelope.BadField("q", "matches too many handoffs", "add words, or filter by project, repo or kind")
	case errors.Is(err, store.ErrUnavailable), clickhouse.IsAway(err):
		return &envelope.Error{Status: http.StatusServiceUnavailable, Message: "the store does not answer", Retry: 5 * time.Second}
	}
	return err
}

func refused(status int, field, message, hint string) error {
	return &envelope.Error{Status: status, Field: field, Message: message, Hint: hint}
}

func notFound(http.ResponseWriter, *http.Request) error {
	return &envelope.Error{Status: http.StatusNotFound, Message: "no such route", Hint: "see docs/api.md"}
}

// methodNotAllowed names the methods that the path does have.
func methodNotAllowed(routes chi.Routes) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		path := r.URL.EscapedPath()
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			as := m
			if m == http.MethodHead { // see GetHead
				as = http.MethodGet
			}
			if routes.Match(chi.NewRouteContext(), as, path) {
				w.Header().Add("Allow", m)
			}
		}
		if w.Header().Get("Allow") == "" { // of a method that HTTP does not know
			return notFound(w, r)
		}
		return &envelope.Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed", Hint: "see docs/api.md"}
	}
}
