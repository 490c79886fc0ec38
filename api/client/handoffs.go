package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// Precondition is what a write demands of the handoff that it replaces; if
// that is not so, the write is an [ErrPrecondition]. The zero value demands
// nothing.
type Precondition struct {
	// IfMatch is the ETag that the handoff must have, such as
	// wire.Handoff.ETag; "*": any, but it must exist.
	IfMatch string
	// IfAbsent demands that there is no handoff under the key.
	IfAbsent bool
}

func (p Precondition) header() http.Header {
	h := http.Header{}
	if p.IfMatch != "" {
		h.Set("If-Match", p.IfMatch)
	}
	if p.IfAbsent {
		h.Set("If-None-Match", "*")
	}
	return h
}

// HandoffQuery selects handoffs, newest first. Zero fields select everything.
type HandoffQuery struct {
	Project string
	Repo    string
	Kind    string
	// UpdatedBefore selects what had no update since.
	UpdatedBefore time.Time
	// Text is a full-text query of the bodies.
	Text string
	// Limit is the size of a page; zero: the service's default.
	Limit int
	// After is the Next of the page before; empty: the first page.
	After string
}

func (q HandoffQuery) values() url.Values {
	v := url.Values{}
	set(v, "project", q.Project)
	set(v, "repo", q.Repo)
	set(v, "kind", q.Kind)
	if !q.UpdatedBefore.IsZero() {
		v.Set("updated_before", q.UpdatedBefore.UTC().Format(time.RFC3339Nano))
	}
	set(v, "q", q.Text)
	setPage(v, q.Limit, q.After)
	return v
}

func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

func setPage(v url.Values, limit int, after string) {
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	set(v, "after", after)
}

// missing is the error of an argument without which the call would be another.
func missing(what string) error { return fmt.Errorf("%w: %s is empty", ErrInvalid, what) }

// PutHandoff creates or replaces the handoff of a key, every field of it.
func (c *Client) PutHandoff(ctx context.Context, w wire.HandoffWrite, p Precondition) (*wire.Handoff, error) {
	var out wire.Handoff
	err := c.do(ctx, request{method: http.MethodPost, url: c.chat + "/handoffs", header: p.header(), body: w, create: true}, &out)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// Handoff is the handoff of a key.
func (c *Client) Handoff(ctx context.Context, key string) (*wire.Handoff, error) {
	var out wire.Handoff
	if err := c.handoff(ctx, key, request{method: http.MethodGet}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// DeleteHandoff deletes the handoff of a key, if there is one. Its revisions
// can still be restored.
func (c *Client) DeleteHandoff(ctx context.Context, key string, p Precondition) error {
	return c.handoff(ctx, key, request{method: http.MethodDelete, header: p.header(), once: p != Precondition{}}, nil)
}

// Revisions are the states that a key had, as far as they are kept, newest
// first; those of a deleted handoff too.
func (c *Client) Revisions(ctx context.Context, key string) ([]wire.Revision, error) {
	var out wire.Revisions
	err := c.handoff(ctx, key, request{method: http.MethodGet, url: "/revisions"}, &out)
	return out.Revisions, err
}

// Restore writes an earlier revision of a key again, as a new one.
func (c *Client) Restore(ctx context.Context, key string, revision int64, p Precondition) (*wire.Handoff, error) {
	r := request{method: http.MethodPost, url: "/restore", header: p.header(), body: wire.Restore{Revision: revision}, create: true}
	var out wire.Handoff
	if err := c.handoff(ctx, key, r, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// handoff calls a route of one handoff; r.url is what follows its key.
func (c *Client) handoff(ctx context.Context, key string, r request, into any) error {
	if key == "" {
		return missing("the handoff's key")
	}
	r.url = c.chat + "/handoffs/" + segment(key) + r.url
	return c.do(ctx, r, into)
}

// Handoffs is one page of handoffs.
func (c *Client) Handoffs(ctx context.Context, q HandoffQuery) (*wire.Handoffs, error) {
	var out wire.Handoffs
	if err := c.do(ctx, request{method: http.MethodGet, url: c.chat + "/handoffs", query: q.values()}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// catchUps bounds how often [Client.AllHandoffs] looks again.
const catchUps = 10

// AllHandoffs are the handoffs of all pages, from q.After on, each id once.
// The first error ends them.
//
// A handoff that is written meanwhile moves to the front of the order, where
// the walk has been already. So it looks at the front again at the end: what
// exists from beginning to end is not missed. It keeps the ids of what it
// yielded. With q.After it does not look again.
func (c *Client) AllHandoffs(ctx context.Context, q HandoffQuery) iter.Seq2[wire.Handoff, error] {
	return func(yield func(wire.Handoff, error) bool) {
		w := walk{seen: map[string]struct{}{}, yield: yield}
		whole := q.After == ""
		for range catchUps + 1 {
			found, more := c.walk(ctx, q, &w)
			if !more || found == 0 || !whole {
				return
			}
			q.After, w.until = "", w.newest
		}
	}
}

// walk is the state of [Client.AllHandoffs].
type walk struct {
	seen   map[string]struct{}
	yield  func(wire.Handoff, error) bool
	newest time.Time // of all that were seen
	until  time.Time // what was older was already seen by the walk before; zero: nothing
}

// overlap is how much later than its time of update a handoff may show up: as
// long as a write may take.
const overlap = time.Minute

// walk goes over the pages once. It returns how many handoffs were new, and
// whether the caller wants more.
func (c *Client) walk(ctx context.Context, q HandoffQuery, w *walk) (found int, more bool) {
	all := pages(q.After, q.Limit, func(after string, limit int) ([]wire.Handoff, *string, error) {
		q.After, q.Limit = after, limit
		page, err := c.Handoffs(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		return page.Handoffs, page.Next, nil
	})
	for h, err := range all {
		if err != nil {
			w.yield(wire.Handoff{}, err)
			return found, false
		}
		if h.UpdatedAt.After(w.newest) {
			w.newest = h.UpdatedAt
		}
		if h.UpdatedAt.Before(w.until.Add(-overlap)) {
			return found, true
		}
		if _, ok := w.seen[h.ID]; ok {
			continue
		}
		w.seen[h.ID] = struct{}{}
		found++
		if !w.yield(h, nil) {
			return found, false
		}
	}
	return found, true
}
