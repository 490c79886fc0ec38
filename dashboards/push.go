package dashboards

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
)

// Grafana is a Grafana that dashboards are pushed to, by its HTTP API. It is safe
// for concurrent use.
type Grafana struct {
	base   *url.URL
	token  string
	client *http.Client
}

// NewGrafana returns the Grafana at an http or https address, which may have a
// path. The token of a service account may write folders and dashboards; an empty
// one sends none.
func NewGrafana(address, token string) (*Grafana, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("address %q of Grafana: want http or https, a host, and no more than a path", address)
	}
	return &Grafana{base: u, token: token, client: &http.Client{
		Timeout: 30 * time.Second,
		// A login page is no answer, and the token is for nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// PushOptions say how to push.
type PushOptions struct {
	// Folder is the title of the folder; it is made if it is missing.
	Folder string
	// Overwrite replaces dashboards that differ. Without it they are left alone.
	Overwrite bool
	// DryRun changes nothing.
	DryRun bool
}

// States of a dashboard after a push, or as it would be after one.
const (
	Created   = "created"
	Replaced  = "replaced"
	Unchanged = "unchanged"
	// Refused is a dashboard that differs and was not to be overwritten.
	Refused = "refused"
)

// Change is what a push did with one dashboard.
type Change struct {
	UID, State string
	// Diff is unified, from what Grafana has to what is pushed.
	Diff string
}

// FolderUID is that of the folder, so that a title may change.
const FolderUID = "tatara-ledger"

// Push brings dashboards into Grafana. What was done before an error is returned
// beside it, and a push that is repeated does the rest.
func (g *Grafana) Push(ctx context.Context, all []Dashboard, o PushOptions) ([]Change, error) {
	if o.Folder == "" {
		return nil, errors.New("pushing needs the title of a folder")
	}
	if !o.DryRun {
		if err := g.folder(ctx, o.Folder); err != nil {
			return nil, err
		}
	}
	var out []Change
	for i := range all {
		c, err := g.push(ctx, &all[i], o)
		if err != nil {
			return out, fmt.Errorf("pushing %s: %w", all[i].UID, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func (g *Grafana) folder(ctx context.Context, title string) error {
	status, err := g.do(ctx, http.MethodGet, "/api/folders/"+FolderUID, nil, nil)
	if status == http.StatusNotFound {
		_, err = g.do(ctx, http.MethodPost, "/api/folders", map[string]any{"uid": FolderUID, "title": title}, nil)
	}
	if err != nil {
		return fmt.Errorf("finding the folder: %w", err)
	}
	return nil
}

func (g *Grafana) push(ctx context.Context, d *Dashboard, o PushOptions) (Change, error) {
	raw, err := Render(d)
	if err != nil {
		return Change{}, err
	}
	want, err := canonical(raw)
	if err != nil {
		return Change{}, err
	}
	var answer struct {
		Dashboard json.RawMessage `json:"dashboard"`
	}
	c, have := Change{UID: d.UID, State: Replaced}, ""
	switch status, err := g.do(ctx, http.MethodGet, "/api/dashboards/uid/"+d.UID, nil, &answer); {
	case status == http.StatusNotFound:
		c.State = Created
	case err != nil:
		return Change{}, err
	default:
		if have, err = canonical(answer.Dashboard); err != nil {
			return Change{}, err
		}
	}
	c.Diff = udiff.Unified("grafana/"+d.UID+".json", "ledger/"+d.UID+".json", have, want)
	switch {
	case c.Diff == "":
		c.State = Unchanged
		return c, nil
	case c.State == Replaced && !o.Overwrite:
		c.State = Refused
		return c, nil
	case o.DryRun:
		return c, nil
	}
	_, err = g.do(ctx, http.MethodPost, "/api/dashboards/db", map[string]any{
		"dashboard": json.RawMessage(raw), "folderUid": FolderUID, "overwrite": o.Overwrite, "message": "tatara-ledger dashboards push",
	}, nil)
	return c, err
}

// canonical is a dashboard without what Grafana numbers by itself, its keys
// sorted.
func canonical(raw []byte) (string, error) {
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "", fmt.Errorf("reading a dashboard: %w", err)
	}
	delete(fields, "id")
	delete(fields, "version")
	text, err := encode(fields)
	return string(text), err
}

// maxAnswer bounds what is read of an answer; a dashboard is some 50 kB.
const maxAnswer = 16 << 20

// do returns the status of an answer, and an error for any that is no success.
func (g *Grafana) do(ctx context.Context, method, path string, body, into any) (int, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, fmt.Errorf("encoding the request: %w", err)
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, g.base.JoinPath(path).String(), content)
	if err != nil {
		return 0, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("asking Grafana: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return resp.StatusCode, fmt.Errorf("reading Grafana's answer: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.StatusCode, fmt.Errorf("%s %s: Grafana answered %s: %.300s", method, path, resp.Status, bytes.TrimSpace(answer))
	}
	if into == nil {
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return resp.StatusCode, fmt.Errorf("reading Grafana's answer: %w", err)
	}
	return resp.StatusCode, nil
}
