package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

const (
	writers       = 8
	handoffRounds = 15
)

// TestHandoffs: keys in every encoding, writers that race for a key through two
// services, and the move to another service.
func TestHandoffs(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	a, b := e.serve(t, e.clickHouse), e.serve(t, e.clickHouse)
	w := newWitness(t)
	clients := []*client.Client{a.chat(t, w), b.chat(t, w)}
	t.Run("rounds", func(t *testing.T) { rounds8(t, clients) })
	t.Run("count", func(t *testing.T) { count8(t, clients) })
	t.Run("keys", func(t *testing.T) { keys(t, a, w) })
	t.Run("stats", func(t *testing.T) { stats(t, a, w) })
	t.Run("move", func(t *testing.T) { move(t, a) })
	a.stop(t)
	b.stop(t)
}

// rounds8: of those who write at the same time on the same condition one wins,
// and its is what everybody reads.
func rounds8(t *testing.T, clients []*client.Client) {
	const key = "race/rounds"
	condition := client.Precondition{IfAbsent: true}
	for round := range handoffRounds {
		var winner atomic.Pointer[wire.Handoff]
		var wins atomic.Int64
		var group errgroup.Group
		for i := range writers {
			group.Go(func() error {
				h, err := clients[i%2].PutHandoff(t.Context(), wire.HandoffWrite{HandoffKey: key, Project: "race", Body: fmt.Sprintf("%d of round %d", i, round)}, condition)
				if errors.Is(err, client.ErrPrecondition) {
					return nil
				}
				wins.Add(1)
				winner.Store(h)
				return err
			})
		}
		if err := group.Wait(); err != nil || wins.Load() != 1 {
			t.Fatalf("round %d: %d won, %v", round, wins.Load(), err)
		}
		for _, c := range clients {
			got, err := c.Handoff(t.Context(), key)
			if diff := cmp.Diff(winner.Load(), got); err != nil || diff != "" {
				t.Fatalf("round %d: %v\n%s", round, err, diff)
			}
		}
		condition = client.Precondition{IfMatch: winner.Load().ETag}
	}
}

// count8: writers that read, add one, and write on the condition that nobody
// was faster, lose nothing.
func count8(t *testing.T, clients []*client.Client) {
	const key, each = "race/count", 10
	if _, err := clients[0].PutHandoff(t.Context(), wire.HandoffWrite{HandoffKey: key, Project: "race", Body: "0"}, client.Precondition{}); err != nil {
		t.Fatal(err)
	}
	add := func(c *client.Client) error {
		for {
			h, err := c.Handoff(t.Context(), key)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(h.Body)
			if err != nil {
				return err
			}
			_, err = c.PutHandoff(t.Context(), wire.HandoffWrite{HandoffKey: key, Project: "race", Body: strconv.Itoa(n + 1)}, client.Precondition{IfMatch: h.ETag})
			if !errors.Is(err, client.ErrPrecondition) {
				return err
			}
		}
	}
	var group errgroup.Group
	for i := range writers {
		group.Go(func() error {
			for n := range each {
				if err := add(clients[(i+n)%2]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	h, err := clients[1].Handoff(t.Context(), key)
	if err != nil || h.Body != strconv.Itoa(writers*each) || h.Revision != writers*each+1 {
		t.Errorf("after %d times one: %+v, %v", writers*each, h, err)
	}
	revisions, err := clients[0].Revisions(t.Context(), key)
	if err != nil || len(revisions) != 20 || revisions[0].Revision != h.Revision || revisions[19].Body != strconv.Itoa(writers*each-19) {
		t.Errorf("%d revisions, %v", len(revisions), err)
	}
}

// keys: a key is found by its escaped form and by the one that a proxy makes of
// it, at both places where the routes are.
func keys(t *testing.T, s *service, w *witness) {
	for _, k := range []struct{ key, escaped, decoded string }{
		{"owner/repo#12", "owner%2Frepo%2312", "owner/repo%2312"},
		{"a/b/c", "a%2fb%2Fc", "a/b/c"},
		{"zażółć/gęślą jaźń ✓", "za%C5%BC%C3%B3%C5%82%C4%87%2Fg%C4%99%C5%9Bl%C4%85%20ja%C5%BA%C5%84%20%E2%9C%93", "za%C5%BC%C3%B3%C5%82%C4%87/g%C4%99%C5%9Bl%C4%85%20ja%C5%BA%C5%84%20%E2%9C%93"},
		{"50% of/it?a=b&c", "50%25%20of%2Fit%3Fa=b&c", "50%25%20of/it%3Fa=b&c"},
	} {
		for _, base := range []string{"", "/api/v1/chat"} {
			at := "http://" + s.api + base + "/handoffs"
			body, err := json.Marshal(wire.HandoffWrite{HandoffKey: k.key, Project: "keys", Body: "at " + base})
			if err != nil {
				t.Fatal(err)
			}
			ask(t, w, http.MethodPost, at, body, http.StatusOK, http.StatusCreated)
			for _, path := range []string{k.escaped, k.decoded} {
				var h wire.Handoff
				if err := json.Unmarshal(ask(t, w, http.MethodGet, at+"/"+path, nil, http.StatusOK), &h); err != nil || h.HandoffKey != k.key || h.Body != "at "+base {
					t.Errorf("%s/%s: %+v, %v", at, path, h, err)
				}
				ask(t, w, http.MethodGet, at+"/"+path+"/revisions", nil, http.StatusOK)
				ask(t, w, http.MethodDelete, at+"/"+path, nil, http.StatusNoContent)
				ask(t, w, http.MethodDelete, at+"/"+path, nil, http.StatusNoContent)
				ask(t, w, http.MethodGet, at+"/"+path, nil, http.StatusNotFound)
				ask(t, w, http.MethodPost, at+"/"+path+"/restore", fmt.Appendf(nil, `{"revision":%d}`, h.Revision), http.StatusOK)
			}
			// And by our client, at either base.
			h, err := s.chatAs(t, client.Config{BaseURL: base, HTTP: &http.Client{Transport: w}}).Handoff(t.Context(), k.key)
			if err != nil || h.HandoffKey != k.key || h.Body != "at "+base {
				t.Errorf("%q below %q: %+v, %v", k.key, base, h, err)
			}
		}
	}
}

// ask sends a request that must be answered with one of the statuses.
func ask(t *testing.T, w *witness, method, url string, body []byte, statuses ...int) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(statuses, resp.StatusCode) {
		t.Errorf("%s %s: %d, not %d: %s", method, url, resp.StatusCode, statuses, answer)
	}
	return answer
}

// move: what one service exports another one imports, once.
func move(t *testing.T, from *service) {
	to := serve(t)
	run := func(args ...string) string {
		t.Helper()
		got := command(t, append([]string{"handoff"}, args...)...)
		if got.code != 0 {
			t.Fatalf("handoff %s ended with %d: %s", strings.Join(args, " "), got.code, got.stderr)
		}
		return got.stdout
	}
	file := filepath.Join(t.TempDir(), "handoffs.ndjson")
	if err := os.WriteFile(file, []byte(run("export", "--url", "http://"+from.api)), 0o600); err != nil {
		t.Fatal(err)
	}
	run("import", file, "--url", "http://"+to.api)
	all := func(s *service) (found []wire.Handoff) {
		for h, err := range s.client.AllHandoffs(t.Context(), client.HandoffQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, h)
		}
		return found
	}
	want, got := all(from), all(to)
	same := cmp.Options{
		cmpopts.SortSlices(func(a, b wire.Handoff) bool { return a.HandoffKey < b.HandoffKey }),
		cmp.Transformer("moved", func(h wire.Handoff) [5]string {
			return [5]string{h.HandoffKey, h.Project, h.Repo, h.Kind, h.Body}
		}),
	}
	if diff := cmp.Diff(want, got, same); diff != "" || len(want) == 0 {
		t.Errorf("%d moved (-from +to):\n%s", len(want), diff)
	}
	run("import", file, "--url", "http://"+to.api)
	if diff := cmp.Diff(got, all(to)); diff != "" {
		t.Errorf("a second import changed something:\n%s", diff)
	}
	to.stop(t)
}
