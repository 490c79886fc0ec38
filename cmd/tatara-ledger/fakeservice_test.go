package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// fakeService keeps handoffs and rooms in memory, so far as the commands can
// tell.
type fakeService struct {
	*httptest.Server
	t        *testing.T
	mu       sync.Mutex
	now      time.Time
	handoffs map[string]wire.Handoff
	history  map[string][]wire.Revision // oldest first
	room     wire.RoomDetail
	messages []wire.Message
	lists    []url.Values
	logs     []url.Values
	writes   int
	fail     func(*http.Request) int // status to fail with; 0: none
}

func newFakeService(t *testing.T) *fakeService {
	t.Helper()
	f := &fakeService{
		t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		handoffs: map[string]wire.Handoff{}, history: map[string][]wire.Revision{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /handoffs", f.list)
	mux.HandleFunc("POST /handoffs", f.put)
	mux.HandleFunc("GET /handoffs/{key}", f.get)
	mux.HandleFunc("DELETE /handoffs/{key}", f.delete)
	mux.HandleFunc("GET /handoffs/{key}/revisions", f.revisions)
	mux.HandleFunc("POST /handoffs/{key}/restore", f.restore)
	mux.HandleFunc("GET /rooms", func(w http.ResponseWriter, _ *http.Request) {
		envelope.JSON(w, 200, wire.Rooms{Rooms: []wire.Room{f.room.Room}})
	})
	mux.HandleFunc("GET /rooms/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != f.room.Room.ID {
			envelope.Fail(w, &envelope.Error{Status: 404, Message: "room not found"})
			return
		}
		envelope.JSON(w, 200, f.room)
	})
	mux.HandleFunc("GET /rooms/{id}/log", f.log)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now = f.now.Add(time.Second)
		w.Header().Set(envelope.RequestIDHeader, "R1")
		if f.fail != nil {
			if status := f.fail(r); status != 0 {
				envelope.Fail(w, &envelope.Error{Status: status, Message: "failing", Hint: "as told"})
				return
			}
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeService) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f.lists = append(f.lists, q)
	var all []wire.Handoff
	for _, h := range f.handoffs {
		if p := q.Get("project"); p == "" || p == h.Project {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b wire.Handoff) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		f.t.Error(err)
	}
	limit = min(limit, 3)
	after, _ := strconv.Atoi(q.Get("after"))
	page := wire.Handoffs{Handoffs: all[after:min(len(all), after+limit)]}
	if after+limit < len(all) {
		next := strconv.Itoa(after + limit)
		page.Next = &next
	}
	envelope.JSON(w, 200, page)
}

func (f *fakeService) meets(w http.ResponseWriter, r *http.Request, key string) bool {
	h, ok := f.handoffs[key]
	match := r.Header.Get("If-Match")
	if (match != "" && (!ok || (match != "*" && match != h.ETag))) || (ok && r.Header.Get("If-None-Match") == "*") {
		envelope.Fail(w, &envelope.Error{Status: 412, Message: "precondition failed"})
		return false
	}
	return true
}

func (f *fakeService) put(w http.ResponseWriter, r *http.Request) {
	var in wire.HandoffWrite
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		f.t.Error(err)
	}
	if r.Header.Get("Idempotency-Key") == "" {
		f.t.Error("a write without an Idempotency-Key")
	}
	if f.meets(w, r, in.HandoffKey) {
		envelope.JSON(w, 200, f.write(in, 0))
	}
}

func (f *fakeService) write(in wire.HandoffWrite, restored int64) wire.Handoff {
	f.writes++
	revision := int64(len(f.history[in.HandoffKey])) + 1
	h := wire.Handoff{
		ID: "id-" + in.HandoffKey, HandoffKey: in.HandoffKey, Project: in.Project, Repo: in.Repo, Kind: in.Kind, Body: in.Body,
		CreatedBy: "me", UpdatedBy: "me", Revision: revision, ETag: fmt.Sprintf(`"%d"`, revision), CreatedAt: f.now, UpdatedAt: f.now,
	}
	f.handoffs[in.HandoffKey] = h
	f.history[in.HandoffKey] = append(f.history[in.HandoffKey], wire.Revision{
		Revision: revision, Project: in.Project, Repo: in.Repo, Kind: in.Kind, Body: in.Body, WrittenBy: "me", WrittenAt: f.now,
		RequestID: "R9", Restored: restored,
	})
	return h
}

// put1 writes a handoff as a test's preparation.
func (f *fakeService) put1(key, project, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(time.Second)
	f.write(wire.HandoffWrite{HandoffKey: key, Project: project, Body: body}, 0)
}

func (f *fakeService) get(w http.ResponseWriter, r *http.Request) {
	h, ok := f.handoffs[r.PathValue("key")]
	if !ok {
		envelope.Fail(w, &envelope.Error{Status: 404, Message: "handoff not found"})
		return
	}
	envelope.JSON(w, 200, h)
}

func (f *fakeService) delete(w http.ResponseWriter, r *http.Request) {
	if f.meets(w, r, r.PathValue("key")) {
		delete(f.handoffs, r.PathValue("key"))
		w.WriteHeader(204)
	}
}

func (f *fakeService) revisions(w http.ResponseWriter, r *http.Request) {
	list := slices.Clone(f.history[r.PathValue("key")])
	slices.Reverse(list)
	envelope.JSON(w, 200, wire.Revisions{Revisions: list, Count: len(list)})
}

func (f *fakeService) restore(w http.ResponseWriter, r *http.Request) {
	var in wire.Restore
	key := r.PathValue("key")
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		f.t.Error(err)
	}
	if int(in.Revision) > len(f.history[key]) {
		envelope.Fail(w, &envelope.Error{Status: 404, Message: "revision not found"})
		return
	}
	old := f.history[key][in.Revision-1]
	envelope.JSON(w, 200, f.write(wire.HandoffWrite{HandoffKey: key, Project: old.Project, Repo: old.Repo, Kind: old.Kind, Body: old.Body}, in.Revision))
}

func (f *fakeService) log(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f.logs = append(f.logs, q)
	after, _ := strconv.ParseInt(q.Get("after"), 10, 64)
	page := wire.Log{Messages: []wire.Message{}}
	if tail, err := strconv.Atoi(q.Get("tail")); err == nil {
		before := len(f.messages) // ids count from 1
		if n, err := strconv.Atoi(q.Get("before")); err == nil {
			before = n - 1
		}
		page.Messages = f.messages[max(0, before-min(tail, 3)):before]
		envelope.JSON(w, 200, page)
		return
	}
	for _, m := range f.messages {
		if m.ID > after {
			if len(page.Messages) == 3 {
				page.Next = &page.Messages[2].ID
				break
			}
			page.Messages = append(page.Messages, m)
		}
	}
	envelope.JSON(w, 200, page)
}

// outcome is what a command printed and how it ended.
type outcome struct {
	out, errOut string
	err         error
}

// runCommand runs a command against the service.
func (f *fakeService) runCommand(t *testing.T, cmd *cobra.Command, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{"--url", f.URL}, args...))
	err := cmd.ExecuteContext(t.Context())
	return outcome{stdout.String(), stderr.String(), err}
}

func (f *fakeService) handoff(t *testing.T, args ...string) outcome {
	t.Helper()
	return f.runCommand(t, newHandoffCommand(), "", args...)
}

func (f *fakeService) mustHandoff(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	o := f.runCommand(t, newHandoffCommand(), stdin, args...)
	if o.err != nil {
		t.Fatalf("handoff %q: %v", args, o.err)
	}
	return o
}

// fails checks that a command ended so.
func (o outcome) fails(t *testing.T, code int, want ...string) {
	t.Helper()
	for _, text := range want {
		if o.err == nil || exitCode(o.err) != code || !strings.Contains(o.err.Error(), text) {
			t.Errorf("got %v, want %q and exit code %d", o.err, text, code)
		}
	}
}
