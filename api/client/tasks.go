package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// Task is what a task spent and how it stands to its ceiling, at most two
// seconds ago. A task that never spent is an [ErrNotFound]; a ledger that
// cannot tell so freshly an [ErrUnavailable].
func (c *Client) Task(ctx context.Context, task string) (*wire.Task, error) {
	var out wire.Task
	if err := c.task(ctx, task, request{method: http.MethodGet}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// TaskQuery selects tasks. Zero fields select everything.
type TaskQuery struct {
	State   string // ok, warn or exceeded
	Project string
	Repo    string
	Kind    string
	// Sort is cost, tokens, rate, recent or share (of a limit), the highest
	// first; empty: cost.
	Sort string
	// Limit is the size of a page; zero: the service's default.
	Limit int
	// After is the Next of the page before; empty: the first page.
	After string
}

func (q TaskQuery) values() url.Values {
	v := url.Values{}
	set(v, "state", q.State)
	set(v, "project", q.Project)
	set(v, "repo", q.Repo)
	set(v, "kind", q.Kind)
	set(v, "sort", q.Sort)
	setPage(v, q.Limit, q.After)
	return v
}

// Tasks is one page of tasks.
func (c *Client) Tasks(ctx context.Context, q TaskQuery) (*wire.Tasks, error) {
	var out wire.Tasks
	if err := c.do(ctx, request{method: http.MethodGet, url: c.ledger + "/v1/tasks", query: q.values()}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// AllTasks are the tasks of all pages, from q.After on, each name once. The
// first error ends them. All orders are by what changes: a task that moves
// meanwhile may be missed. It keeps the names of what it yielded.
func (c *Client) AllTasks(ctx context.Context, q TaskQuery) iter.Seq2[wire.Task, error] {
	return func(yield func(wire.Task, error) bool) {
		seen := map[string]struct{}{}
		all := pages(q.After, q.Limit, func(after string, limit int) ([]wire.Task, *string, error) {
			q.After, q.Limit = after, limit
			page, err := c.Tasks(ctx, q)
			if err != nil {
				return nil, nil, err
			}
			return page.Tasks, page.Next, nil
		})
		for t, err := range all {
			if _, again := seen[t.Task]; again && err == nil {
				continue
			}
			seen[t.Task] = struct{}{}
			if !yield(t, err) {
				return
			}
		}
	}
}

// SetCeiling replaces what is set for one task: what is null in w is as
// configured. The zero value takes everything back.
func (c *Client) SetCeiling(ctx context.Context, task string, w wire.CeilingWrite) (*wire.CeilingOverride, error) {
	var out wire.CeilingOverride
	if err := c.task(ctx, task, request{method: http.MethodPut, url: "/ceiling", body: w}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Ceiling is what is set for one task, if anything is, and what was.
func (c *Client) Ceiling(ctx context.Context, task string) (*wire.CeilingOverrides, error) {
	var out wire.CeilingOverrides
	if err := c.task(ctx, task, request{method: http.MethodGet, url: "/ceiling"}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// EndTask says that a task is over, which resolves its alerts. To say it again
// is harmless.
func (c *Client) EndTask(ctx context.Context, task string) (*wire.TaskEnd, error) {
	var out wire.TaskEnd
	if err := c.task(ctx, task, request{method: http.MethodPost, url: "/end", body: struct{}{}}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// task calls a route of one task; r.url is what follows its name.
func (c *Client) task(ctx context.Context, task string, r request, into any) error {
	if task == "" {
		return missing("the task's name")
	}
	r.url = c.ledger + "/v1/tasks/" + segment(task) + r.url
	return c.do(ctx, r, into)
}
