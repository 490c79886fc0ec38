package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/szymonrychu/tatara-ledger/api/auth/authtest"
	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// staticTokens is a file of tokens with different scopes.
func staticTokens(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	text := "- {name: reader, token: static-token-reader, scopes: [read]}\n" +
		"- {name: writer, token: static-token-writer, scopes: [write]}\n" +
		"- {name: sender, token: static-token-sender, scopes: [ingest]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// answered is what a request was answered, but for its body.
type answered struct {
	status int
	header http.Header
}

// authorised sends a request with a token; an empty one is left out.
func authorised(t *testing.T, w *witness, s *service, token, method, path, body string, header ...string) answered {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.api+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return answered{resp.StatusCode, resp.Header}
}

// TestAuth: who may call, and what, at a service that listens beyond loopback.
func TestAuth(t *testing.T) {
	t.Parallel()
	issuer, stranger := authtest.New(), authtest.New()
	t.Cleanup(issuer.Close)
	t.Cleanup(stranger.Close)
	e := startEngines(t)
	tokens := staticTokens(t)
	s := e.newService(t, e.clickHouse, "--oidc-issuer", issuer.URL, "--tokens-file", tokens, "--rate-limit-run", "30")
	_, port, _ := strings.Cut(s.api, ":")
	s.args = append(s.args, "--listen", "0.0.0.0:"+port)
	s.process = start(t, s.args...)
	until(t, "the service is ready", func() bool { return s.ended() || s.status("/readyz") == http.StatusOK })
	w := newWitness(t)
	t.Run("loopback", func(t *testing.T) { refusesToListen(t, s) })
	t.Run("tokens", func(t *testing.T) { tokensOf(t, w, s, issuer, stranger) })
	t.Run("rotation", func(t *testing.T) { rotation(t, w, s, issuer) })
	t.Run("scopes", func(t *testing.T) { scopes(t, w, s) })
	t.Run("identity", func(t *testing.T) { identity(t, w, s, issuer) })
	t.Run("limits", func(t *testing.T) { rateLimit(t, w, s) })
	t.Run("issuer down", func(t *testing.T) { issuerDown(t, w, e) })
	stop(t, s.process)
}

// refusesToListen: without authentication a service is for loopback alone.
func refusesToListen(t *testing.T, s *service) {
	got := command(t, "serve", "--data-dir", folder(t), "--listen", "0.0.0.0:0", "--clickhouse-port", "0")
	if got.code != 2 || !strings.Contains(got.stderr, "--oidc-issuer or --tokens-file") {
		t.Errorf("a listener without authentication: %d %s", got.code, got.stderr)
	}
	if addr := s.serving(t)["api"]; strings.HasPrefix(addr, "127.") {
		t.Errorf("it serves at %s", addr)
	}
}

// tokensOf: which tokens are taken.
func tokensOf(t *testing.T, w *witness, s *service, issuer, stranger *authtest.Issuer) {
	claims := func(more map[string]any) string {
		all := map[string]any{"iss": issuer.URL, "aud": authtest.Audience, "sub": "agent", "exp": time.Now().Add(time.Hour).Unix()}
		for k, v := range more {
			all[k] = v
		}
		raw, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	public, err := x509.MarshalPKIXPublicKey(issuer.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	good := issuer.Token(nil)
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"none":               {"", 401},
		"not a token":        {"nonsense", 401},
		"good":               {good, 200},
		"audience as array":  {issuer.Token(map[string]any{"aud": []string{"other", authtest.Audience}}), 200},
		"wrong audience":     {issuer.Token(map[string]any{"aud": "other"}), 401},
		"no audience":        {issuer.Token(map[string]any{"aud": nil}), 401},
		"wrong issuer":       {stranger.Token(nil), 401},
		"issuer by name":     {stranger.Token(map[string]any{"iss": issuer.URL}), 401},
		"expired":            {issuer.Token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), 401},
		"never expires":      {issuer.Token(map[string]any{"exp": nil}), 401},
		"not yet":            {issuer.Token(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), 401},
		"nobody":             {issuer.Token(map[string]any{"sub": ""}), 401},
		"alg none":           {none + "." + claims(nil) + ".", 401},
		"alg none, signed":   {none + "." + claims(nil) + "." + strings.Split(good, ".")[2], 401},
		"HS256 of the key":   {issuer.TokenBy(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, nil), 401},
		"unknown kid":        {issuer.TokenBy(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: foreign, KeyID: "unknown"}}, nil), 401},
		"another key":        {issuer.TokenBy(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: foreign, KeyID: "key-1"}}, nil), 401},
		"other claims":       {strings.Split(good, ".")[0] + "." + claims(map[string]any{"sub": "root"}) + "." + strings.Split(good, ".")[2], 401},
		"static":             {"static-token-reader", 200},
		"static, cut":        {"static-token-reade", 401},
		"static, other case": {"STATIC-TOKEN-READER", 401},
	} {
		resp := authorised(t, w, s, c.token, http.MethodGet, "/rooms", "", "X-Request-Id", "run "+strings.ReplaceAll(name, ",", ""))
		if resp.status != c.want {
			t.Errorf("%s: %d, not %d", name, resp.status, c.want)
		}
		if challenge := resp.header.Get("WWW-Authenticate"); c.want == 401 && !strings.HasPrefix(challenge, `Bearer realm="`) {
			t.Errorf("%s: WWW-Authenticate: %q", name, challenge)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json"} {
		if got := s.status(path); got != http.StatusOK {
			t.Errorf("%s without a token: %d", path, got)
		}
	}
	for _, path := range []string{"/v1/spend", "/handoffs", "/handoffs/a%2Fb", "/api/v1/chat/rooms", "/rooms/x/log"} {
		if got := authorised(t, w, s, "", http.MethodGet, path, "").status; got != 401 {
			t.Errorf("%s without a token: %d", path, got)
		}
	}
}

// rotation: a key that is new at the provider is found, and the one that it
// replaces is taken no longer.
func rotation(t *testing.T, w *witness, s *service, issuer *authtest.Issuer) {
	old := issuer.Token(nil)
	issuer.Rotate(jose.ES256)
	fresh := issuer.Token(nil)
	until(t, "the new key is taken", func() bool {
		return authorised(t, w, s, fresh, http.MethodGet, "/rooms", "").status == http.StatusOK
	})
	if got := authorised(t, w, s, old, http.MethodGet, "/rooms", "").status; got != 401 {
		t.Errorf("a token of the key before: %d", got)
	}
}

// scopes: what each token may do.
func scopes(t *testing.T, w *witness, s *service) {
	const read, write, ingest = "static-token-reader", "static-token-writer", "static-token-sender"
	const nobody = "00000000-0000-4000-8000-000000000000"
	message := `{"participant_id":"` + nobody + `","body":"b"}`
	for _, c := range []struct{ scope, method, path, body string }{
		{read, "GET", "/rooms", ""},
		{read, "GET", "/rooms/" + nobody, ""},
		{read, "GET", "/rooms/" + nobody + "/participants", ""},
		{read, "GET", "/rooms/" + nobody + "/log", ""},
		{read, "GET", "/rooms/" + nobody + "/messages?advance=false&participant=" + nobody, ""},
		{read, "GET", "/handoffs", ""},
		{read, "GET", "/handoffs/k", ""},
		{read, "GET", "/handoffs/k/revisions", ""},
		{read, "GET", "/v1/spend", ""},
		{read, "GET", "/v1/sources", ""},
		{read, "GET", "/v1/handoffs/stats", ""},
		{write, "GET", "/rooms/" + nobody + "/messages?participant=" + nobody, ""}, // it moves the cursor
		{write, "POST", "/rooms/" + nobody + "/messages", message},
		{write, "POST", "/rooms/" + nobody + "/participants", `{"name":"n"}`},
		{write, "POST", "/rooms/" + nobody + "/participants/" + nobody + "/ack", `{"last_seen_id":1}`},
		{write, "DELETE", "/rooms/" + nobody + "/participants/" + nobody, ""},
		{write, "DELETE", "/rooms/" + nobody, ""},
		{write, "POST", "/rooms", `{"name":"n"}`},
		{write, "POST", "/handoffs", `{"handoff_key":"k2","project":"p","body":"b"}`},
		{write, "POST", "/handoffs/k/restore", `{"revision":1}`},
		{write, "DELETE", "/handoffs/k", ""},
		{ingest, "POST", "/v1/calls", `{}`},
		{ingest, "PUT", "/v1/runs/run-1", `{}`},
		{ingest, "POST", "/v1/outcomes", `{}`},
		{ingest, "POST", "/v1/annotations", `{}`},
	} {
		for _, token := range []string{read, write, ingest} {
			for _, prefix := range []string{"", "/api/v1/chat"} {
				if prefix != "" && strings.HasPrefix(c.path, "/v1/") {
					continue
				}
				got := authorised(t, w, s, token, c.method, prefix+c.path, c.body).status
				if allowed := got != http.StatusForbidden && got != http.StatusUnauthorized; allowed != (token == c.scope) {
					t.Errorf("%s %s with %s: %d", c.method, prefix+c.path, token, got)
				}
			}
		}
	}
	challenge := authorised(t, w, s, read, http.MethodPost, "/rooms", `{"name":"n"}`).header.Get("WWW-Authenticate")
	if !strings.Contains(challenge, `error="insufficient_scope"`) || !strings.Contains(challenge, `scope="write"`) {
		t.Errorf("a scope that is missing: %q", challenge)
	}
}

// identity: rows name who wrote them, by the claims of a token that a client
// got for its credentials.
func identity(t *testing.T, w *witness, s *service, issuer *authtest.Issuer) {
	for _, c := range []struct {
		id, name string
		claims   map[string]any
	}{
		{"by-username", "service-account-agents", map[string]any{"preferred_username": "service-account-agents", "azp": "agents"}},
		{"by-azp", "by-azp", nil},
		{"by-sub", "only-sub", map[string]any{"sub": "only-sub", "azp": ""}},
	} {
		issuer.AddClient(c.id, "secret", c.claims)
		source, err := client.OIDC(client.OIDCConfig{Issuer: issuer.URL, ClientID: c.id, ClientSecret: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.bare(t, w, source).PutHandoff(t.Context(), wire.HandoffWrite{HandoffKey: "who/" + c.id, Project: "auth", Body: "mine"}, client.Precondition{})
		if err != nil || h.CreatedBy != c.name || h.UpdatedBy != c.name {
			t.Errorf("%s: %+v, %v", c.id, h, err)
		}
	}
	h, err := s.bare(t, w, client.StaticToken("static-token-writer")).PutHandoff(t.Context(),
		wire.HandoffWrite{HandoffKey: "who/by-azp", Project: "auth", Body: "now mine"}, client.Precondition{})
	if err != nil || h.CreatedBy != "by-azp" || h.UpdatedBy != "writer" {
		t.Errorf("another writer: %+v, %v", h, err)
	}
}

// rateLimit: a run that asks too often is told to wait, and it alone.
func rateLimit(t *testing.T, w *witness, s *service) {
	refused := 0
	for range 40 {
		resp := authorised(t, w, s, "static-token-reader", http.MethodGet, "/handoffs", "", "X-Request-Id", "a run gone wild")
		if resp.status == http.StatusTooManyRequests {
			refused++
			if resp.header.Get("Retry-After") == "" {
				t.Error("a 429 without Retry-After")
			}
		}
	}
	if refused < 10 || refused > 15 { // the window slides
		t.Errorf("of 40 requests %d were refused, not 10", refused)
	}
	for _, run := range []string{"another run", ""} {
		header := []string{"X-Request-Id", run}
		if run == "" {
			header = nil
		}
		if got := authorised(t, w, s, "static-token-reader", http.MethodGet, "/handoffs", "", header...).status; got != http.StatusOK {
			t.Errorf("run %q: %d", run, got)
		}
	}
	_, err := s.bare(t, w, client.StaticToken("static-token-none-such")).Handoffs(t.Context(), client.HandoffQuery{})
	if !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("our client with a wrong token: %v", err)
	}
}

// issuerDown: a service starts while its provider is down, says so to those
// who show a token, and recovers.
func issuerDown(t *testing.T, w *witness, e *engines) {
	issuer := authtest.New()
	t.Cleanup(issuer.Close)
	issuer.SetDown(true)
	s := e.serve(t, e.clickHouse, "--oidc-issuer", issuer.URL)
	s.faults = true
	token := issuer.Token(nil)
	resp := authorised(t, w, s, token, http.MethodGet, "/rooms", "")
	if resp.status != http.StatusServiceUnavailable {
		t.Errorf("without its provider: %d", resp.status)
	}
	if got := authorised(t, w, s, "", http.MethodGet, "/rooms", "").status; got != http.StatusUnauthorized {
		t.Errorf("without a token and its provider: %d", got)
	}
	issuer.SetDown(false)
	until(t, "the provider is found", func() bool {
		return authorised(t, w, s, token, http.MethodGet, "/rooms", "").status == http.StatusOK
	})
	issuer.SetDown(true) // the keys are known by now
	if got := authorised(t, w, s, issuer.Token(map[string]any{"sub": "another"}), http.MethodGet, "/rooms", "").status; got != http.StatusOK {
		t.Errorf("with keys that are known: %d", got)
	}
	s.stop(t)
}
