package client

import (
	"context"
	"net/http"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// Outcome is what came of a task.
type Outcome struct {
	// ID identifies the outcome; empty: its content does.
	ID   string    `json:"id,omitempty"`
	At   time.Time `json:"ts"`
	Task string    `json:"task"`
	// Outcome is any word, such as proposal_accepted, review_found, ci_passed,
	// delivered or churned, of at most 128 bytes.
	Outcome string `json:"outcome"`
	// Detail is for people; at most 4096 bytes.
	Detail string `json:"detail,omitempty"`
}

// Annotation is a remark at one moment, for people who look at figures over time.
type Annotation struct {
	// ID identifies the annotation; empty: its content does.
	ID string    `json:"id,omitempty"`
	At time.Time `json:"ts"`
	// Project is the one that it is of; empty: all.
	Project string `json:"project,omitempty"`
	Text    string `json:"text"` // at most 4096 bytes
	// Tags are at most 32, of at most 128 bytes each.
	Tags []string `json:"tags,omitempty"`
}

// PostOutcomes says what came of tasks. The good ones are kept and the others
// named in the answer; where none is good, the error is an [ErrInvalid] that
// names the first. The same outcome counts once. Without any, none is sent.
func (c *Client) PostOutcomes(ctx context.Context, outcomes ...Outcome) (*wire.Posted, error) {
	return post(ctx, c, "/v1/outcomes", outcomes)
}

// PostAnnotations marks moments, as [Client.PostOutcomes] does.
func (c *Client) PostAnnotations(ctx context.Context, annotations ...Annotation) (*wire.Posted, error) {
	return post(ctx, c, "/v1/annotations", annotations)
}

func post[T any](ctx context.Context, c *Client, path string, facts []T) (*wire.Posted, error) {
	var out wire.Posted
	if len(facts) == 0 {
		return &out, nil
	}
	if err := c.do(ctx, request{method: http.MethodPost, url: c.ledger + path, body: facts}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
