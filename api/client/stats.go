package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// HandoffStats returns statistics of handoffs; the parameters are those of GET
// /v1/handoffs/stats.
func (c *Client) HandoffStats(ctx context.Context, params url.Values) (*wire.HandoffStats, error) {
	var out wire.HandoffStats
	if err := c.do(ctx, request{method: http.MethodGet, url: c.ledger + "/v1/handoffs/stats", query: params}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
