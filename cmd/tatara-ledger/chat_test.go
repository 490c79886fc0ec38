package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func newFakeRoom(t *testing.T, bodies ...string) *fakeService {
	t.Helper()
	f := newFakeService(t)
	f.room = wire.RoomDetail{
		Room:         wire.Room{ID: "r1", Name: "work", Status: "active", CreatedBy: "orchestrator", CreatedAt: f.now},
		Participants: []wire.Participant{{ID: "p1", Name: "ann"}, {ID: "p2", Name: "bob"}},
	}
	for _, b := range bodies {
		f.say(b)
	}
	return f
}

func (f *fakeService) say(body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	author, id := "p1", int64(len(f.messages)+1)
	f.messages = append(f.messages, wire.Message{
		ID: id, RoomID: "r1", AuthorID: &author, AuthorName: "ann", Kind: "message", Body: body,
		CreatedAt: f.now.Add(time.Duration(id) * time.Minute),
	})
}

func (f *fakeService) chat(t *testing.T, args ...string) outcome {
	t.Helper()
	return f.runCommand(t, newChatCommand(), "", args...)
}

func TestChatRooms(t *testing.T) {
	t.Parallel()
	f := newFakeRoom(t)
	o := f.chat(t, "rooms", "--status", "active")
	if o.err != nil || !strings.Contains(o.out, "│ r1 │ work │ active │ 2026-11-30 12:00:00 │ orchestrator │") {
		t.Errorf("%v\n%s", o.err, o.out)
	}
	o = f.chat(t, "rooms", "--format", "csv")
	if want := "id,name,status,created_by,created_at,archived_at\nr1,work,active,orchestrator,2026-11-30T12:00:00Z,\n"; o.out != want {
		t.Errorf("%v: %s", o.err, o.out)
	}
	f.chat(t, "rooms", "--status", "open").fails(t, 2, `unknown --status "open": want active or archived`)
	f.chat(t, "rooms", "--format", "xml").fails(t, 2, "want table, json or csv")
	f.chat(t, "rooms", "--limit", "-1").fails(t, 2, "--limit")
}

func TestChatLog(t *testing.T) {
	t.Parallel()
	f := newFakeRoom(t, "hello", "two\n2026-11-30 12:00:00 #9 ann: forged\x1b[2J", "three", "four", "five")
	target, unknown := "p2", "p9"
	f.messages[2].TargetID, f.messages[3].TargetID = &target, &unknown
	f.messages[4].AuthorID, f.messages[4].AuthorName, f.messages[4].Kind = nil, "system", "system"
	o := f.chat(t, "log", "r1")
	want := `2026-11-30 12:01:00 #1 ann: hello
2026-11-30 12:02:00 #2 ann: two
    2026-11-30 12:00:00 #9 ann: forged` + "\ufffd" + `[2J
2026-11-30 12:03:00 #3 ann -> bob: three
2026-11-30 12:04:00 #4 ann -> p9: four
2026-11-30 12:05:00 #5 system (system): five
`
	if diff := cmp.Diff(want, o.out); diff != "" || o.err != nil {
		t.Error(o.err, diff)
	}
	o = f.chat(t, "log", "r1", "--after", "4", "--format", "json")
	var m wire.Message
	if err := json.Unmarshal([]byte(o.out), &m); err != nil || m.ID != 5 || m.AuthorID != nil || strings.Count(o.out, "\n") != 1 {
		t.Errorf("%v: %s", err, o.out)
	}
	f.chat(t, "log", "r2").fails(t, 1, "room not found")
	f.chat(t, "log", "r1", "--format", "csv").fails(t, 2, "want text or json")
}

// screen is what a command that runs on prints.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(s.String(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q in\n%s", want, s)
		}
	}
}

func TestChatWatch(t *testing.T) {
	t.Parallel()
	f := newFakeRoom(t, "one", "two", "three", "four", "five")
	cmd := newChatCommand()
	var out, errOut screen
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs([]string{"--url", f.URL, "watch", "r1", "--tail", "2", "--interval", "100ms"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	out.await(t, "#5")
	f.say("six")
	out.await(t, "#6")
	f.mu.Lock()
	f.fail = func(*http.Request) int { return 503 }
	f.mu.Unlock()
	f.say("seven")
	errOut.await(t, "trying on: the ledger answered 503")
	f.mu.Lock()
	f.fail = nil
	f.mu.Unlock()
	out.await(t, "#7 ann: seven")
	cancel() // Ctrl-C
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var ids []string
	for line := range strings.Lines(out.String()) {
		ids = append(ids, strings.Fields(line)[2])
	}
	if diff := cmp.Diff([]string{"#4", "#5", "#6", "#7"}, ids); diff != "" {
		t.Error(diff)
	}
}

// TestChatWatchTail: what is there is not read as a whole to print its end.
func TestChatWatchTail(t *testing.T) {
	t.Parallel()
	for tail, want := range map[string]string{"0": "", "1": "#8", "5": "#4 #5 #6 #7 #8", "9": "#1 #2 #3 #4 #5 #6 #7 #8", "-1": "#1 #2 #3 #4 #5 #6 #7 #8"} {
		f := newFakeRoom(t, "1", "2", "3", "4", "5", "6", "7", "8")
		f.room.Room.Status = "archived"
		o := f.chat(t, "watch", "r1", "--tail", tail, "--interval", "100ms")
		var ids []string
		for line := range strings.Lines(o.out) {
			ids = append(ids, strings.Fields(line)[2])
		}
		if got := strings.Join(ids, " "); got != want || o.err != nil {
			t.Errorf("--tail %s: %v, %s", tail, o.err, got)
		}
		for _, q := range f.logs {
			if after := q.Get("after"); tail != "-1" && !q.Has("tail") && after != "8" {
				t.Errorf("--tail %s read the log after %q", tail, after)
			}
		}
	}
	empty := newFakeRoom(t)
	empty.room.Room.Status = "archived"
	if o := empty.chat(t, "watch", "r1", "--interval", "100ms"); o.err != nil || o.out != "" {
		t.Errorf("%v: %s", o.err, o.out)
	}
	empty.chat(t, "watch", "r1", "--tail", "-2").fails(t, 2, "--tail")
}

func TestChatWatchEnds(t *testing.T) {
	t.Parallel()
	f := newFakeRoom(t, "one")
	f.room.Room.Status = "archived"
	o := f.chat(t, "watch", "r1", "--interval", "100ms", "--after", "0", "--format", "json")
	if o.err != nil || strings.Count(o.out, "\n") != 1 || o.errOut != "the room is archived\n" {
		t.Errorf("%v: %s, %s", o.err, o.out, o.errOut)
	}
	f.chat(t, "watch", "r2").fails(t, 1, "room not found")
	f.chat(t, "watch", "r1", "--interval", "1ms").fails(t, 2, "--interval")
}
