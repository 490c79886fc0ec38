package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// TestTaskRoutes: each call is one request of the right form, and its answer is
// read whole. A name is one segment of the path, whatever it holds.
func TestTaskRoutes(t *testing.T) {
	t.Parallel()
	dollars, tokens := wire.Dollars("12.5"), int64(7)
	for name, tt := range map[string]struct {
		call              func(context.Context, *client.Client) (any, error)
		method, uri, body string
		answer, want      any
	}{
		"task": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Task(ctx, "acme/widgets#7 ü") },
			method: "GET", uri: "/v1/tasks/acme%2Fwidgets%237%20%C3%BC", answer: wire.Task{Task: "t", State: "warn"}, want: &wire.Task{Task: "t", State: "warn"},
		},
		"a name of dots": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Task(ctx, "..") },
			method: "GET", uri: "/v1/tasks/%2E%2E", answer: wire.Task{Task: ".."}, want: &wire.Task{Task: ".."},
		},
		"tasks": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.Tasks(ctx, client.TaskQuery{State: "exceeded", Project: "p", Repo: "a/b", Kind: "k", Sort: "cost", Limit: 5, After: "c"})
			},
			method: "GET", uri: "/v1/tasks?after=c&kind=k&limit=5&project=p&repo=a%2Fb&sort=cost&state=exceeded",
			answer: wire.Tasks{Tasks: []wire.Task{{Task: "t"}}, Count: 1}, want: &wire.Tasks{Tasks: []wire.Task{{Task: "t"}}, Count: 1},
		},
		"set ceiling": {
			call: func(ctx context.Context, c *client.Client) (any, error) {
				return c.SetCeiling(ctx, "a/b", wire.CeilingWrite{USD: &dollars, Tokens: &tokens})
			},
			method: "PUT", uri: "/v1/tasks/a%2Fb/ceiling", body: `{"usd":"12.5","tokens":7,"output_tokens":null,"exempt":false}`,
			answer: wire.CeilingOverride{Task: "a/b", SetBy: "me"}, want: &wire.CeilingOverride{Task: "a/b", SetBy: "me"},
		},
		"ceiling": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.Ceiling(ctx, "a/b") },
			method: "GET", uri: "/v1/tasks/a%2Fb/ceiling",
			answer: wire.CeilingOverrides{CeilingOverride: wire.CeilingOverride{Exempt: true}, Changes: []wire.CeilingOverride{{SetBy: "x"}}},
			want:   &wire.CeilingOverrides{CeilingOverride: wire.CeilingOverride{Exempt: true}, Changes: []wire.CeilingOverride{{SetBy: "x"}}},
		},
		"end": {
			call:   func(ctx context.Context, c *client.Client) (any, error) { return c.EndTask(ctx, "a/b") },
			method: "POST", uri: "/v1/tasks/a%2Fb/end", body: `{}`, answer: wire.TaskEnd{EndedBy: "me"}, want: &wire.TaskEnd{EndedBy: "me"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if tries++; tries == 1 { // all of them may be repeated
					envelope.Fail(w, &envelope.Error{Status: 503, Message: "restarting"})
					return
				}
				envelope.JSON(w, 200, tt.answer)
			})
			got, err := tt.call(t.Context(), s.client(t, client.Config{Attempts: 2}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			requests := s.requests()
			if len(requests) != 2 {
				t.Fatalf("%d requests", len(requests))
			}
			for _, r := range requests {
				if r.method != tt.method || r.uri != tt.uri || r.body != tt.body {
					t.Errorf("%s %s %s", r.method, r.uri, r.body)
				}
			}
		})
	}
}

func TestTaskErrors(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{
		400: client.ErrInvalid, 401: client.ErrUnauthorized, 403: client.ErrForbidden, 404: client.ErrNotFound, 503: client.ErrUnavailable,
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			envelope.Fail(w, &envelope.Error{Status: status, Message: "refused", Hint: "do better"})
		})
		c := s.client(t, client.Config{})
		for name, call := range map[string]func(string) error{
			"task":        func(task string) error { _, err := c.Task(t.Context(), task); return err },
			"set ceiling": func(task string) error { _, err := c.SetCeiling(t.Context(), task, wire.CeilingWrite{}); return err },
			"ceiling":     func(task string) error { _, err := c.Ceiling(t.Context(), task); return err },
			"end":         func(task string) error { _, err := c.EndTask(t.Context(), task); return err },
		} {
			if err := call("t"); !errors.Is(err, want) || !strings.Contains(err.Error(), "do better") {
				t.Errorf("%s, %d: %v", name, status, err)
			}
			before := len(s.requests())
			if err := call(""); !errors.Is(err, client.ErrInvalid) || len(s.requests()) != before {
				t.Errorf("%s without a name: %v", name, err)
			}
		}
		for _, err := range c.AllTasks(t.Context(), client.TaskQuery{}) {
			if !errors.Is(err, want) {
				t.Errorf("all tasks, %d: %v", status, err)
			}
		}
	}
}

// TestAllTasks: all pages with the same filter, and a task that moved to a
// later page comes once.
func TestAllTasks(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "b", "d"}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("state") != "warn" || q.Get("sort") != "cost" {
			t.Error(r.URL)
		}
		at, _ := strconv.Atoi(q.Get("after"))
		limit, err := strconv.Atoi(q.Get("limit"))
		if err != nil {
			t.Error(err)
		}
		var page wire.Tasks
		for _, name := range names[at:min(at+limit, len(names))] {
			page.Tasks = append(page.Tasks, wire.Task{Task: name})
		}
		if at+limit < len(names) {
			next := strconv.Itoa(at + limit)
			page.Next = &next
		}
		envelope.JSON(w, 200, page)
	})
	for after, want := range map[string]string{"": "[a b c d]", "2": "[c b d]"} {
		var got []string
		for task, err := range s.client(t, client.Config{}).AllTasks(t.Context(), client.TaskQuery{State: "warn", Sort: "cost", Limit: 2, After: after}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, task.Task)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("after %q: %v", after, got)
		}
	}
	for _, err := range s.client(t, client.Config{}).AllTasks(t.Context(), client.TaskQuery{State: "warn", Sort: "cost", Limit: 1}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if n := len(s.requests()); n != 3+2+1 {
		t.Errorf("%d requests", n)
	}
}
