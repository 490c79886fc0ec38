package dashboards

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// standIn is Grafana's API so far as a push uses it. It records what it was asked.
type standIn struct {
	t      *testing.T
	mu     sync.Mutex
	asked  []string
	folder map[string]string // title by UID
	stored map[string]map[string]any
	fail   string // "METHOD /path" that is answered with 500
}

func newStandIn(t *testing.T) (*standIn, *Grafana) {
	t.Helper()
	s := &standIn{t: t, folder: map[string]string{}, stored: map[string]map[string]any{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	g, err := NewGrafana(server.URL+"/grafana/", "a token")
	if err != nil {
		t.Fatal(err)
	}
	return s, g
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/grafana")
	s.asked = append(s.asked, r.Method+" "+path)
	if r.Header.Get("Authorization") != "Bearer a token" {
		http.Error(w, `{"message":"Unauthorized"}`, http.StatusUnauthorized)
		return
	}
	if s.fail == r.Method+" "+path {
		http.Error(w, `{"message":"disk full"}`, http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	switch {
	case r.Method == "GET" && strings.HasPrefix(path, "/api/folders/"):
		s.answer(w, s.folder[strings.TrimPrefix(path, "/api/folders/")] != "", map[string]string{})
	case r.Method == "POST" && path == "/api/folders":
		var f struct{ UID, Title string }
		s.read(body, &f)
		s.folder[f.UID] = f.Title
	case r.Method == "GET" && strings.HasPrefix(path, "/api/dashboards/uid/"):
		d := s.stored[strings.TrimPrefix(path, "/api/dashboards/uid/")]
		s.answer(w, d != nil, map[string]any{"dashboard": d, "meta": map[string]any{"folderUid": FolderUID}})
	case r.Method == "POST" && path == "/api/dashboards/db":
		s.store(w, body)
	default:
		http.NotFound(w, r)
	}
}

func (s *standIn) store(w http.ResponseWriter, body []byte) {
	var p struct {
		Dashboard map[string]any
		FolderUID string
		Overwrite bool
	}
	s.read(body, &p)
	uid, _ := p.Dashboard["uid"].(string)
	if s.folder[p.FolderUID] == "" {
		http.Error(w, `{"message":"folder not found"}`, http.StatusBadRequest)
		return
	}
	old := s.stored[uid]
	if old != nil && !p.Overwrite {
		http.Error(w, `{"message":"version-mismatch"}`, http.StatusPreconditionFailed)
		return
	}
	p.Dashboard["id"], p.Dashboard["version"] = 7, 1
	if old != nil {
		p.Dashboard["version"] = 2
	}
	s.stored[uid] = p.Dashboard
}

func (s *standIn) read(body []byte, into any) {
	if err := json.Unmarshal(body, into); err != nil {
		s.t.Errorf("%v: %.80s", err, body)
	}
}

func (s *standIn) answer(w http.ResponseWriter, found bool, v any) {
	if !found {
		http.Error(w, `{"message":"not found"}`, http.StatusNotFound)
		return
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.t.Error(err)
	}
}

// writes are the requests that change something.
func (s *standIn) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.asked {
		if !strings.HasPrefix(a, "GET ") {
			n++
		}
	}
	return n
}

func states(changes []Change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, c.State)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestPush(t *testing.T) {
	t.Parallel()
	s, g := newStandIn(t)
	all := All(options(t))
	push := func(o PushOptions, want string, wantDiff bool) []Change {
		t.Helper()
		o.Folder = "Ledger"
		changes, err := g.Push(t.Context(), all, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := states(changes); len(changes) != len(all) || !slices.Equal(got, []string{want}) {
			t.Fatalf("%d dashboards are %v, want all %s", len(changes), got, want)
		}
		if (changes[0].Diff != "") != wantDiff {
			t.Fatalf("diff %q", changes[0].Diff)
		}
		return changes
	}
	push(PushOptions{DryRun: true}, Created, true)
	if n := s.writes(); n != 0 {
		t.Fatalf("a dry run wrote %d times", n)
	}
	push(PushOptions{}, Created, true)
	if n := s.writes(); n != 1+len(all) || s.folder[FolderUID] != "Ledger" {
		t.Fatalf("%d writes, folders %v", n, s.folder)
	}
	push(PushOptions{Overwrite: true}, Unchanged, false)
	if n := s.writes(); n != 1+len(all) {
		t.Fatalf("what is unchanged was written: %d writes", n)
	}
	for _, d := range s.stored {
		d["title"] = "changed by hand"
	}
	changes := push(PushOptions{}, Refused, true)
	if d := changes[0].Diff; !strings.Contains(d, `-  "title": "changed by hand"`) || !strings.Contains(d, `+  "title": "Fleet spend"`) {
		t.Errorf("the diff does not say what would change:\n%s", d)
	}
	push(PushOptions{Overwrite: true, DryRun: true}, Replaced, true)
	if n := s.writes(); n != 1+len(all) || s.stored[UIDSpend]["title"] != "changed by hand" {
		t.Fatalf("%d writes of what was not to be overwritten", n)
	}
	push(PushOptions{Overwrite: true}, Replaced, true)
	if got := s.stored[UIDSpend]; got["title"] != "Fleet spend" || got["version"] != 2 {
		t.Errorf("stored: %v, version %v", got["title"], got["version"])
	}
}

func TestPushFails(t *testing.T) {
	t.Parallel()
	s, g := newStandIn(t)
	all := All(options(t))
	s.fail = "GET /api/dashboards/uid/" + all[1].UID
	changes, err := g.Push(t.Context(), all, PushOptions{Folder: "Ledger"})
	if err == nil || !strings.Contains(err.Error(), "disk full") || len(changes) != 1 {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	g.token = "another"
	if _, err := g.Push(t.Context(), all, PushOptions{Folder: "Ledger"}); err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "another") {
		t.Errorf("with a wrong token: %v", err)
	}
	if _, err := g.Push(t.Context(), all, PushOptions{}); err == nil {
		t.Error("pushed into no folder")
	}
	for _, address := range []string{"", "grafana", "ftp://g", "http://u:p@g", "http://g?x=1"} {
		if _, err := NewGrafana(address, ""); err == nil {
			t.Errorf("%q is an address", address)
		}
	}
}
