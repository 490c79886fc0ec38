package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/api/auth"
	"github.com/szymonrychu/tatara-ledger/api/auth/authtest"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func tokenOf(scope string) string { return "token-of-the-scope-" + scope }

// withTokens makes a token for every scope, and one by a provider.
func withTokens(t testing.TB, issuer string) func(*Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	var list strings.Builder
	for _, s := range auth.AllScopes().List() {
		fmt.Fprintf(&list, "- name: %s-token\n  token: %s\n  scopes: [%s]\n", s, tokenOf(string(s)), s)
	}
	fmt.Fprintf(&list, "- name: all\n  token: %s\n  scopes: [read, write, ingest]\n", tokenOf("all"))
	if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := auth.DefaultConfig()
	cfg.TokensFile, cfg.Issuer = file, issuer
	a, err := auth.New(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Auth = a }
}

// TestScopes: every route needs the scope that the document says, and no other
// will do.
func TestScopes(t *testing.T) {
	t.Parallel()
	s := newService(t, withTokens(t, ""))
	raw, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	id := uuid.NewString()
	fill := strings.NewReplacer("{key}", "k", "{id}", id, "{pid}", id, "{run}", "r")
	seen := map[string]int{}
	for template, item := range doc.Paths {
		if template == "/internal/metrics/push" { // another listener
			continue
		}
		prefixes := []string{""}
		if strings.Contains(string(item["servers"]), chatPrefix) {
			prefixes = append(prefixes, chatPrefix)
		}
		for method, operation := range item {
			if method == "parameters" || method == "servers" || template == "/rooms/{id}/messages" && method == "get" { // see TestPollScopes
				continue
			}
			var op struct {
				Security []map[string][]string `json:"security"`
			}
			if err := json.Unmarshal(operation, &op); err != nil {
				t.Fatal(err)
			}
			scope := "none"
			if len(op.Security) > 0 {
				scope = op.Security[0]["bearer"][0]
			}
			seen[scope]++
			for _, prefix := range prefixes {
				s.checkScope(strings.ToUpper(method), prefix+fill.Replace(template), scope)
			}
		}
	}
	if seen["read"] < 8 || seen["write"] < 8 || seen["ingest"] != 4 || seen["admin"] != 2 || seen["none"] != 5 {
		t.Errorf("%v", seen)
	}
}

func (s *service) checkScope(method, path, scope string) {
	s.t.Helper()
	var body any
	if method == http.MethodPost || method == http.MethodPut {
		body = `{}`
	}
	open := scope == "none"
	if r := s.do(method, path, body); (r.status == http.StatusUnauthorized) == open || !open && !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer realm=") {
		s.t.Errorf("%s %s without a token: %d", method, path, r.status)
	}
	if open {
		return
	}
	for _, has := range auth.AllScopes().List() {
		r := s.do(method, path, body, "Authorization", "bearer "+tokenOf(string(has)))
		if (r.status == http.StatusForbidden) == (string(has) == scope) || r.status == http.StatusUnauthorized {
			s.t.Errorf("%s %s with the scope %s: %d", method, path, has, r.status)
		}
	}
}

// TestPollScopes: a poll that moves the cursor writes.
func TestPollScopes(t *testing.T) {
	t.Parallel()
	s := newService(t, withTokens(t, ""))
	write, read := []string{"Authorization", "Bearer " + tokenOf("write")}, []string{"Authorization", "Bearer " + tokenOf("read")}
	room := into[wire.Room](s.do("POST", "/rooms", `{"name":"r"}`, write...).want(201)).ID
	p := into[wire.Participant](s.do("POST", "/rooms/"+room+"/participants", `{"name":"p"}`, write...).want(201)).ID
	for query, moves := range map[string]bool{
		"": true, "&advance=true": true, "&advance=1": true, "&wait=0": true, "&limit=5": true,
		"&advance=false": false, "&advance=0": false, "&after=0": false, "&after=0&advance=false": false,
	} {
		path := "/rooms/" + room + "/messages?participant=" + p + query
		want := map[bool]int{true: 403, false: 200}
		if s.do("GET", path, nil, read...).status != want[moves] || s.do("GET", path, nil, write...).status != want[!moves] {
			t.Errorf("%s", query)
		}
	}
	s.do("HEAD", "/rooms/"+room+"/messages?participant="+p, nil, read...).want(200)
	s.do("GET", "/rooms/"+room+"/messages?participant="+p+"&advance=x", nil, read...).fails(400, "advance")
}

// TestCreatedBy: from the token's claims; idempotency keys belong to a subject.
func TestCreatedBy(t *testing.T) {
	t.Parallel()
	issuer := authtest.New()
	t.Cleanup(issuer.Close)
	s := newService(t, withTokens(t, issuer.URL))
	as := func(claims map[string]any) []string {
		return []string{"Authorization", "Bearer " + issuer.Token(claims)}
	}
	ann := as(map[string]any{"sub": "1", "preferred_username": "ann"})
	bot := as(map[string]any{"sub": "2", "azp": "agents"})
	h := into[wire.Handoff](s.do("POST", "/handoffs", handoffOf("k"), ann...).want(201))
	if h.CreatedBy != "ann" {
		t.Errorf("%+v", h)
	}
	h = into[wire.Handoff](s.do("POST", "/handoffs", handoffOf("k"), bot...).want(200))
	if h.CreatedBy != "ann" || h.UpdatedBy != "agents" {
		t.Errorf("%+v", h)
	}
	first := into[wire.Room](s.do("POST", "/rooms", `{"name":"r"}`, append(ann, "Idempotency-Key", "k")...).want(201))
	second := into[wire.Room](s.do("POST", "/rooms", `{"name":"other"}`, append(bot, "Idempotency-Key", "k")...).want(201))
	if first.ID == second.ID {
		t.Error("one subject's key is another's")
	}
	// Behind a token, the name and the content type do not matter.
	s.do("POST", "/rooms", `{"name":"r"}`, append(ann, "Content-Type", "text/plain")...).want(201)
	w := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "http://ledger.example/rooms", nil)
	req.Header.Set("Authorization", ann[1])
	req.Header.Set("Origin", "http://elsewhere.example")
	s.server.Config.Handler.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
