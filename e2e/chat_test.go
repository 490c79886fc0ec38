package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/api"
	"github.com/szymonrychu/tatara-ledger/api/apitest"
	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// described is the API's own description.
var described = sync.OnceValues(func() (*apitest.Document, error) {
	raw, err := api.OpenAPI()
	if err != nil {
		return nil, err
	}
	return apitest.Parse(raw)
})

// witness sends requests, compares the answers with the API's description, and
// remembers what clients saw. It is safe for concurrent use.
type witness struct {
	t    *testing.T
	base *http.Transport
	doc  *apitest.Document

	mu       sync.Mutex
	statuses map[int]int // 0: no answer
	slowest  time.Duration
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	doc, err := described()
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{MaxIdleConnsPerHost: 128}
	t.Cleanup(base.CloseIdleConnections)
	return &witness{t: t, base: base, doc: doc, statuses: map[int]int{}}
}

// To compare an answer takes longer than to make it, so of many successes only
// every so many-th is.
const (
	comparedAll  = 200
	comparedThen = 20
)

// RoundTrip sends a request and reads its answer.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := time.Now()
	resp, err := w.base.RoundTrip(r)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil {
		w.note(time.Since(begin), 0)
		return nil, err
	}
	n := w.note(time.Since(begin), resp.StatusCode)
	if resp.StatusCode >= http.StatusMultipleChoices || n < comparedAll || n%comparedThen == 0 {
		w.doc.Check(w.t, r, resp, body)
	}
	if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
		w.t.Errorf("%s %s: 503 without saying when to come back", r.Method, r.URL)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// note remembers an answer and returns how many of its status came before.
func (w *witness) note(took time.Duration, status int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowest = max(w.slowest, took)
	w.statuses[status]++
	return w.statuses[status] - 1
}

// text is the body of a success.
func (w *witness) text(r *http.Request) (string, error) {
	resp, err := w.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s %s", r.Method, r.URL, resp.Status, body)
	}
	return string(body), err
}

// check fails the test if clients saw anything but success, or that they may
// come back.
func (w *witness) check(t *testing.T, slowest time.Duration) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("answers by status: %v; the slowest after %s", w.statuses, w.slowest.Round(time.Millisecond))
	for status, n := range w.statuses {
		switch status {
		case 0, http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusServiceUnavailable:
		default:
			t.Errorf("%d answers of status %d", n, status)
		}
	}
	if w.slowest > slowest {
		t.Errorf("an answer took %s", w.slowest)
	}
}

// chat is a client that repeats a call until it is answered.
func (s *service) chat(t *testing.T, w *witness) *client.Client {
	t.Helper()
	return s.chatAs(t, client.Config{HTTP: &http.Client{Transport: w}})
}

// chatAs is chat with a token, a path or the like.
func (s *service) chatAs(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	cfg.BaseURL = "http://" + s.api + cfg.BaseURL
	cfg.Attempts, cfg.RetryFor = 1000, patience
	c, err := client.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bare is a client that tries once.
func (s *service) bare(t *testing.T, w *witness, token client.TokenSource) *client.Client {
	t.Helper()
	c, err := client.NewWithConfig(client.Config{
		BaseURL: "http://" + s.api, HTTP: &http.Client{Transport: w}, Token: token, Attempts: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// room opens a room with participants of these names.
func room(t *testing.T, c *client.Client, names ...string) (*wire.Room, []*wire.Participant) {
	t.Helper()
	r, err := c.CreateRoom(t.Context(), wire.NewRoom{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	members := make([]*wire.Participant, 0, len(names))
	for _, name := range names {
		p, err := c.Join(t.Context(), r.ID, wire.NewParticipant{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, p)
	}
	return r, members
}

// logOf is a room's whole log.
func logOf(ctx context.Context, t *testing.T, c *client.Client, room string) []wire.Message {
	t.Helper()
	var all []wire.Message
	for m, err := range c.AllLog(ctx, room, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}
