package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// TestRoutes: every method asks what the contract says.
func TestRoutes(t *testing.T) {
	t.Parallel()
	before := time.Date(2026, 11, 1, 12, 0, 0, 500, time.FixedZone("", 3600))
	five := int64(5)
	tests := map[string]struct {
		call func(context.Context, *client.Client) error
		want string
	}{
		"put": {func(ctx context.Context, c *client.Client) error {
			_, err := c.PutHandoff(ctx, wire.HandoffWrite{HandoffKey: "a/b", Project: "p", Body: "<x>"}, client.Precondition{})
			return err
		}, `POST /handoffs {"handoff_key":"a/b","project":"p","body":"<x>"}`},
		"get": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Handoff(ctx, "a/b%2F#ü ?x;.")
			return err
		}, "GET /handoffs/a%2Fb%252F%23%C3%BC%20%3Fx%3B. "},
		"get of dots":   {func(ctx context.Context, c *client.Client) error { _, err := c.Handoff(ctx, ".."); return err }, "GET /handoffs/%2E%2E "},
		"get of dotted": {func(ctx context.Context, c *client.Client) error { _, err := c.Handoff(ctx, "../x"); return err }, "GET /handoffs/..%2Fx "},
		"delete handoff": {func(ctx context.Context, c *client.Client) error {
			return c.DeleteHandoff(ctx, "k", client.Precondition{})
		}, "DELETE /handoffs/k "},
		"revisions": {func(ctx context.Context, c *client.Client) error { _, err := c.Revisions(ctx, "a/b"); return err }, "GET /handoffs/a%2Fb/revisions "},
		"restore": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Restore(ctx, "a/b", 3, client.Precondition{})
			return err
		}, `POST /handoffs/a%2Fb/restore {"revision":3}`},
		"list": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Handoffs(ctx, client.HandoffQuery{Project: "p", Repo: "o/r", Kind: "k", UpdatedBefore: before, Text: "a b", Limit: 7, After: "x=="})
			return err
		}, "GET /handoffs?after=x%3D%3D&kind=k&limit=7&project=p&q=a+b&repo=o%2Fr&updated_before=2026-11-01T11%3A00%3A00.0000005Z "},
		"create room": {func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateRoom(ctx, wire.NewRoom{Name: "n"})
			return err
		}, `POST /rooms {"name":"n"}`},
		"rooms": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Rooms(ctx, client.RoomQuery{Status: "active", Limit: 2})
			return err
		}, "GET /rooms?limit=2&status=active "},
		"room":    {func(ctx context.Context, c *client.Client) error { _, err := c.Room(ctx, "r"); return err }, "GET /rooms/r "},
		"archive": {func(ctx context.Context, c *client.Client) error { return c.ArchiveRoom(ctx, "r") }, "DELETE /rooms/r "},
		"join": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Join(ctx, "r", wire.NewParticipant{Name: "n"})
			return err
		}, `POST /rooms/r/participants {"name":"n"}`},
		"participants": {func(ctx context.Context, c *client.Client) error { _, err := c.Participants(ctx, "r"); return err }, "GET /rooms/r/participants "},
		"leave":        {func(ctx context.Context, c *client.Client) error { return c.Leave(ctx, "r", "p") }, "DELETE /rooms/r/participants/p "},
		"ack":          {func(ctx context.Context, c *client.Client) error { return c.Ack(ctx, "r", "p", 9) }, `POST /rooms/r/participants/p/ack {"last_seen_id":9}`},
		"send": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Send(ctx, "r", wire.NewMessage{ParticipantID: "p", Body: "b"})
			return err
		}, `POST /rooms/r/messages {"participant_id":"p","body":"b"}`},
		"poll": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Poll(ctx, "r", "p", client.PollOptions{Wait: 30 * time.Second})
			return err
		}, "GET /rooms/r/messages?participant=p&wait=30s "},
		"peek": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Poll(ctx, "r", "p", client.PollOptions{After: &five, Limit: 3})
			return err
		}, "GET /rooms/r/messages?advance=false&after=5&limit=3&participant=p "},
		"log": {func(ctx context.Context, c *client.Client) error { _, err := c.Log(ctx, "r", 4, 2); return err }, "GET /rooms/r/log?after=4&limit=2 "},
		"run": {func(ctx context.Context, c *client.Client) error {
			return c.PutRun(ctx, "a/b", client.RunLink{Task: "t"})
		}, `PUT /v1/runs/a%2Fb {"task":"t"}`},
		"spend": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Spend(ctx, url.Values{"by": {"kind"}})
			return err
		}, "GET /v1/spend?by=kind "},
		"sources": {func(ctx context.Context, c *client.Client) error { _, err := c.Sources(ctx); return err }, "GET /v1/sources "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, "{}") })
			c := s.client(t, client.Config{RequestID: "run-7", UserAgent: "test/1", Token: client.StaticToken(" tok\n")})
			if err := tt.call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			got := s.requests()
			if len(got) != 1 || got[0].method+" "+got[0].uri+" "+got[0].body != tt.want {
				t.Fatalf("asked %+v, want %s", got, tt.want)
			}
			h := got[0].header
			if h.Get("X-Request-Id") != "run-7" || h.Get("User-Agent") != "test/1" || h.Get("Authorization") != "Bearer tok" {
				t.Errorf("header %v", h)
			}
			if create := got[0].method == "POST" && name != "ack"; create != (len(h.Get("Idempotency-Key")) == 36) {
				t.Errorf("Idempotency-Key %q", h.Get("Idempotency-Key"))
			}
			if body := got[0].body != ""; body != (h.Get("Content-Type") == "application/json") || len(h.Values("Transfer-Encoding")) > 0 {
				t.Errorf("header %v", h)
			}
		})
	}
}

// TestBase: rooms and handoffs are below the base, the ledger's routes below
// it without the chat's path.
func TestBase(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, "{}") })
	for base, want := range map[string][2]string{
		"":                        {"/rooms", "/v1/sources"},
		"/":                       {"/rooms", "/v1/sources"},
		"/ledger":                 {"/ledger/rooms", "/ledger/v1/sources"},
		"/api/v1/chat":            {"/api/v1/chat/rooms", "/v1/sources"},
		"/api/v1/chat/":           {"/api/v1/chat/rooms", "/v1/sources"},
		"/api/v1/chat/demo":       {"/api/v1/chat/demo/rooms", "/v1/sources"},
		"/x/api/v1/chat/demo/":    {"/x/api/v1/chat/demo/rooms", "/x/v1/sources"},
		"/api/v1/chatter":         {"/api/v1/chatter/rooms", "/api/v1/chatter/v1/sources"},
		"/api/v1/chat/one/two":    {"/api/v1/chat/one/two/rooms", "/api/v1/chat/one/two/v1/sources"},
		"/api/v1/chat/%C3%BC%2Fx": {"/api/v1/chat/%C3%BC%2Fx/rooms", "/v1/sources"},
	} {
		c := s.client(t, client.Config{BaseURL: base})
		at := len(s.requests())
		if _, err := c.Rooms(t.Context(), client.RoomQuery{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Sources(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := s.requests()[at:]
		if diff := cmp.Diff(want, [2]string{got[0].uri, got[1].uri}); diff != "" {
			t.Errorf("%q: %s", base, diff)
		}
	}
	for _, bad := range []string{"nowhere", "ftp://x", "http://", "http://u:hunter2@x", "http://x?y=1", "http://x#y", "http://a b", "http://u:hunter2@x:y"} {
		_, err := client.NewWithConfig(client.Config{BaseURL: bad})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
		if _, later := client.New(bad).Sources(t.Context()); later == nil || later.Error() != err.Error() {
			t.Errorf("%s: %v", bad, later)
		}
	}
}

func TestPrecondition(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, "{}") })
	c := s.client(t, client.Config{})
	if _, err := c.PutHandoff(t.Context(), wire.HandoffWrite{}, client.Precondition{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Restore(t.Context(), "k", 1, client.Precondition{IfMatch: `"4"`}); err != nil {
		t.Fatal(err)
	}
	got := s.requests()
	if got[0].header.Get("If-None-Match") != "*" || got[0].header.Get("If-Match") != "" || got[1].header.Get("If-Match") != `"4"` {
		t.Errorf("%+v", got)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	c := s.client(t, client.Config{})
	_, get := c.Handoff(t.Context(), "")
	_, room := c.Room(t.Context(), "")
	_, poll := c.Poll(t.Context(), "r", "", client.PollOptions{})
	for _, err := range []error{
		get, room, poll, c.DeleteHandoff(t.Context(), "", client.Precondition{}), c.ArchiveRoom(t.Context(), ""),
		c.Leave(t.Context(), "r", ""), c.Ack(t.Context(), "r", "", 1), c.PutRun(t.Context(), "", client.RunLink{}),
	} {
		if !errors.Is(err, client.ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{
		400: client.ErrInvalid, 401: client.ErrUnauthorized, 403: client.ErrForbidden, 404: client.ErrNotFound,
		408: client.ErrUnavailable, 409: client.ErrConflict, 412: client.ErrPrecondition, 413: client.ErrTooLarge,
		415: client.ErrInvalid, 422: client.ErrInvalid, 429: client.ErrRateLimited,
		502: client.ErrUnavailable, 503: client.ErrUnavailable, 504: client.ErrUnavailable,
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "R1")
			envelope.Fail(w, &envelope.Error{Status: status, Message: "is odd", Field: "body", Hint: "make it even", Retry: 3 * time.Second})
		})
		_, err := s.client(t, client.Config{}).Handoff(t.Context(), "k")
		var e *envelope.Error
		if !errors.Is(err, want) || !errors.As(err, &e) {
			t.Fatalf("%d: %v", status, err)
		}
		if diff := cmp.Diff(&envelope.Error{Status: status, Message: "body: is odd", Field: "body", Hint: "make it even", Retry: 3 * time.Second, RequestID: "R1"}, e); diff != "" {
			t.Errorf("%d: %s", status, diff)
		}
		if !strings.HasSuffix(err.Error(), ": body: is odd; make it even (request R1)") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// TestForeignAnswers: what is not the service's answer is told in a line.
func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status     int
		kind, body string
		want       string
	}{
		"a proxy's page":   {502, "text/html", "<html><h1>Bad</h1>", "the ledger answered 502: Bad Gateway"},
		"undeclared page":  {404, "text/plain", "<!doctype html>", "the ledger answered 404: Not Found"},
		"plain text":       {500, "text/plain", "no \x1b[31mluck\nand more", "the ledger answered 500: no [31mluck"},
		"nothing":          {403, "", "", "the ledger answered 403: Forbidden"},
		"long":             {400, "text/plain", strings.Repeat("ü", 400), "the ledger answered 400: " + strings.Repeat("ü", 150)},
		"not modified":     {304, "", "", "the ledger answered 304: Not Modified"},
		"success, no JSON": {200, "text/html", "<html>", "is this the URL of a ledger?"},
		"success, empty":   {200, "", "", "is this the URL of a ledger?"},
		"too much":         {200, "application/json", `{"body":"` + strings.Repeat("x", 1000) + `"}`, "it is over the limit of 1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				if tt.status != 304 {
					say(w, tt.body)
				}
			})
			_, err := s.client(t, client.Config{MaxAnswerBytes: 1000}).Handoff(t.Context(), "k")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTimeout: an attempt ends after Timeout, a long poll after what it waits
// for on top.
func TestTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(150 * time.Millisecond):
			say(w, `{"room_status":"active"}`)
		case <-r.Context().Done():
		}
	})
	c := s.client(t, client.Config{Timeout: 50 * time.Millisecond})
	if _, err := c.Handoff(t.Context(), "k"); !errors.Is(err, client.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if p, err := c.Poll(t.Context(), "r", "p", client.PollOptions{Wait: 10 * time.Second}); err != nil || p.RoomStatus != "active" {
		t.Error(err)
	}
}

// breaker is a service that keeps connections, reads requests and closes
// without an answer from the second on.
func breaker(t *testing.T) *service {
	t.Helper()
	var s *service
	s = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if len(s.requests()) == 1 {
			say(w, `{}`)
			return
		}
		panic(http.ErrAbortHandler)
	})
	return s
}

// TestPollOnce: a poll that moves the cursor and that the service may have
// seen is sent once, by net/http too, on a connection that was used before.
func TestPollOnce(t *testing.T) {
	t.Parallel()
	s := breaker(t)
	c := s.client(t, client.Config{Attempts: 5})
	if _, err := c.Poll(t.Context(), "r", "p", client.PollOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Poll(t.Context(), "r", "p", client.PollOptions{})
	if !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "not repeated") || len(s.requests()) != 2 {
		t.Errorf("%v, %d requests", err, len(s.requests()))
	}
	// A delete under a precondition would meet its own work.
	at := len(s.requests())
	if err := c.DeleteHandoff(t.Context(), "k", client.Precondition{IfMatch: `"1"`}); err == nil || len(s.requests()) != at+1 {
		t.Errorf("%v, %d requests", err, len(s.requests())-at)
	}
}

func TestPeekRepeats(t *testing.T) {
	t.Parallel()
	s := breaker(t)
	c := s.client(t, client.Config{Attempts: 2})
	for range 2 {
		_, _ = c.Poll(t.Context(), "r", "p", client.PollOptions{Peek: true})
	}
	if n := len(s.requests()); n < 3 {
		t.Errorf("%d requests", n)
	}
}

// TestPollBeforeReached: what nobody can have seen is repeated, a poll too.
func TestPollBeforeReached(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, client.Config{BaseURL: "http://" + addr, Attempts: 8})
	done := make(chan error, 1)
	go func() {
		_, err := c.Poll(t.Context(), "r", "p", client.PollOptions{})
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	l, err = net.Listen("tcp", addr)
	if err != nil {
		t.Skip("somebody took the port: ", err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { say(w, "{}") })}}
	s.Start()
	defer s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
