// Package client is the Go client of the ledger's HTTP API. The command line
// and the tests use it.
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// Client calls one ledger. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// New returns a client of the ledger at base, such as http://127.0.0.1:8080.
func New(base string) *Client {
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Timeout: 2 * time.Minute}}
}

// Spend queries spend; the parameters are those of GET /v1/spend.
func (c *Client) Spend(ctx context.Context, params url.Values) (*wire.Spend, error) {
	var out wire.Spend
	return &out, c.get(ctx, "/v1/spend?"+params.Encode(), &out)
}

// Sources says when each source was last heard.
func (c *Client) Sources(ctx context.Context) ([]wire.Source, error) {
	var out wire.Sources
	err := c.get(ctx, "/v1/sources", &out)
	return out.Sources, err
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return fmt.Errorf("preparing a request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("calling the ledger: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return failure(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the ledger's answer: %w", err)
	}
	return nil
}

// failure is the error that the ledger answered with, as an *envelope.Error.
func failure(resp *http.Response) error {
	e := &envelope.Error{}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if json.Unmarshal(body, e) != nil || e.Message == "" {
		e.Message = strings.TrimSpace(string(body))
	}
	e.Status = resp.StatusCode
	return fmt.Errorf("ledger answered %s: %w", resp.Status, e)
}
