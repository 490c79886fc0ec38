package client

import (
	"context"
	"net/http"
)

// RunLink ties a run to its task, its session and its labels. An empty field
// says nothing.
type RunLink struct {
	Pod        string `json:"pod,omitempty"`
	Task       string `json:"task,omitempty"`
	Session    string `json:"session,omitempty"`
	Issue      string `json:"issue,omitempty"`
	HandoffKey string `json:"handoff_key,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Repo       string `json:"repo,omitempty"`
	Project    string `json:"project,omitempty"`
	Effort     string `json:"effort,omitempty"`
}

// PutRun links a run. It replaces the run's earlier link whole.
func (c *Client) PutRun(ctx context.Context, run string, link RunLink) error {
	if run == "" {
		return missing("run")
	}
	return c.do(ctx, request{method: http.MethodPut, url: c.ledger + "/v1/runs/" + segment(run), body: link}, nil)
}
