package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// Spend queries spend; the parameters are those of GET /v1/spend.
func (c *Client) Spend(ctx context.Context, params url.Values) (*wire.Spend, error) {
	var out wire.Spend
	if err := c.do(ctx, request{method: http.MethodGet, url: c.ledger + "/v1/spend", query: params}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Sources says when each source was last heard.
func (c *Client) Sources(ctx context.Context) ([]wire.Source, error) {
	var out wire.Sources
	err := c.do(ctx, request{method: http.MethodGet, url: c.ledger + "/v1/sources"}, &out)
	return out.Sources, err
}
