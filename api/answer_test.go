package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/store"
)

type someHandoffs = Handoffs

// failing is a store that always answers with one error.
type failing struct {
	someHandoffs
	err error
}

func (f failing) Handoff(context.Context, string) (store.Handoff, error) {
	return store.Handoff{}, f.err
}

// TestStoreErrorsOfChat: every error of the stores has its status, and none
// shows what is behind it.
func TestStoreErrorsOfChat(t *testing.T) {
	t.Parallel()
	wrapped := func(err error) error { return fmt.Errorf("secret: %w", errors.Join(err, errors.New("secret"))) }
	for _, c := range []struct {
		err    error
		status int
		field  string
	}{
		{&store.MissingError{What: "participant"}, 404, "participant"},
		{store.ErrNotFound, 404, ""},
		{store.ErrUnavailable, 503, ""},
		{errors.New("secret"), 500, ""},
	} {
		for _, err := range []error{c.err, wrapped(c.err)} {
			w := send(chatHandler(t, failing{err: err}), http.MethodGet, "/handoffs/k", "")
			if e := failure(t, w); w.Code != c.status || e.Field != c.field || (c.status == 503) != (w.Header().Get("Retry-After") == "5") {
				t.Errorf("%v: %d %s", err, w.Code, w.Body)
			}
		}
	}
	for err, status := range map[error]int{
		store.ErrPrecondition: 412, store.ErrOtherProject: 409, store.ErrArchived: 409, store.ErrAmbiguous: 400, store.ErrBeyond: 400, store.ErrKeyReused: 422, store.ErrTooBroad: 400,
	} {
		// Not answers of this route: only the mapping is asked for.
		w := send((&server{log: slog.New(slog.DiscardHandler)}).handle(func(http.ResponseWriter, *http.Request) error { return wrapped(err) }), http.MethodGet, "/", "")
		if w.Code != status {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}

func chatHandler(t *testing.T, h Handoffs) http.Handler {
	t.Helper()
	reg := prometheus.NewRegistry()
	return checked(t, Routes(Config{
		Ledger: &ledger{}, Handoffs: h, Registry: reg, Log: slog.New(slog.DiscardHandler),
		Receiver: receive.New(receive.DefaultConfig(), discard{}, nil, slog.New(slog.DiscardHandler), reg),
	}))
}

// reading notes what is recorded of reads.
type reading struct {
	someHandoffs
	events []store.Event
}

func (r *reading) Handoff(context.Context, string) (store.Handoff, error) {
	at := time.Now().Add(-time.Hour)
	return store.Handoff{ID: uuid.New(), Key: "k", Project: "p", Repo: "r", Kind: "review", Body: "body", Revision: 3, CreatedAt: at, UpdatedAt: at}, nil
}

func (r *reading) Recorded(e store.Event) { r.events = append(r.events, e) }

// TestReadsAreRecorded: with their age and size; HEAD reads nothing.
func TestReadsAreRecorded(t *testing.T) {
	t.Parallel()
	read := &reading{}
	h := chatHandler(t, read)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if w := send(h, method, "/handoffs/k", "", "X-Request-Id", "run-1"); w.Code != 200 || w.Header().Get("ETag") != `"3"` {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
	if len(read.events) != 1 {
		t.Fatalf("%+v", read.events)
	}
	e := read.events[0]
	if e.Action != store.HandoffRead || e.Key != "k" || e.Project != "p" || e.Repo != "r" || e.Kind != "review" || e.Revision != 3 || e.Bytes != 4 ||
		e.RequestID != "run-1" || e.Actor != "local" || e.Age < time.Hour || e.Age > time.Hour+time.Minute {
		t.Errorf("%+v", e)
	}
}
