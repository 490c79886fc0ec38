package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/client"
)

// bouncer is a service that takes one token.
func bouncer(t *testing.T, token *atomic.Value) *service {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		say(w, "{}")
	})
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	var valid atomic.Value
	valid.Store("one")
	s := bouncer(t, &valid)
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := s.client(t, client.Config{Token: client.TokenFile(file)})
	if err := get(t.Context(), c); !errors.Is(err, client.ErrToken) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	write(" one \n")
	if err := get(t.Context(), c); err != nil {
		t.Error(err)
	}
	write("") // being replaced
	if err := get(t.Context(), c); err != nil {
		t.Error(err)
	}
	write("two")
	valid.Store("two")
	if err := get(t.Context(), c); err != nil {
		t.Error(err)
	}
	valid.Store("three")
	if err := get(t.Context(), c); !errors.Is(err, client.ErrUnauthorized) {
		t.Error(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), c); !errors.Is(err, client.ErrToken) {
		t.Error(err)
	}
	write("hunter2 hunter3")
	if err := get(t.Context(), s.client(t, client.Config{Token: client.TokenFile(file)})); err == nil || strings.Contains(err.Error(), "hunter") {
		t.Error(err)
	}
}

func TestStaticToken(t *testing.T) {
	t.Parallel()
	var valid atomic.Value
	valid.Store("one")
	s := bouncer(t, &valid)
	c := s.client(t, client.Config{Token: client.StaticToken("hunter2"), Attempts: 5})
	if err := get(t.Context(), c); !errors.Is(err, client.ErrUnauthorized) || len(s.requests()) != 1 {
		t.Errorf("%v, %d requests", err, len(s.requests()))
	}
}

// TestSecretsDoNotPrint: nothing that holds a secret shows it.
func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	settings := client.Settings{Token: "hunter2", OIDC: client.OIDCConfig{Issuer: "http://i", ClientID: "me", ClientSecret: "hunter2"}}
	cfg, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	oidc, err := client.OIDC(settings.OIDC)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	filed := client.TokenFile(file)
	if _, err := filed.Token(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{settings, &settings, cfg, cfg.Token, oidc, client.Config{Token: oidc}, filed, client.Config{Token: filed}} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, "hunter2") {
				t.Errorf("%T %s: %s", v, format, text)
			}
		}
	}
	if text, err := json.Marshal(settings.Token); err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("%s, %v", text, err)
	}
}

// issuer grants tokens named after how many it granted.
type issuer struct {
	*httptest.Server
	grants   atomic.Int64
	life     atomic.Int64 // seconds
	status   atomic.Int64 // of the token endpoint; zero: grant
	delay    time.Duration
	mu       sync.Mutex
	lastForm string
	lastAuth string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.life.Store(3600)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // a test that gets nothing fails
			"issuer": i.URL, "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/auth",
		})
	})
	mux.HandleFunc("POST /token", i.token)
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	time.Sleep(i.delay)
	_ = r.ParseForm()
	i.mu.Lock()
	i.lastForm, i.lastAuth = r.PostForm.Encode(), r.Header.Get("Authorization")
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if s := i.status.Load(); s != 0 {
		w.WriteHeader(int(s))
		say(w, `{"error":"invalid_client","error_description":"who are you"}`)
		return
	}
	fmt.Fprintf(w, `{"access_token":"t%d","token_type":"Bearer","expires_in":%d}`, i.grants.Add(1), i.life.Load())
}

func (i *issuer) source(t *testing.T, cfg client.OIDCConfig) client.TokenSource {
	t.Helper()
	cfg.Issuer, cfg.ClientID, cfg.HTTP = i.URL, "me", i.Client()
	if cfg.ClientSecretFile == "" {
		cfg.ClientSecret = "hunter2"
	}
	source, err := client.OIDC(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.delay = 50 * time.Millisecond
	var valid atomic.Value
	valid.Store("t1")
	s := bouncer(t, &valid)
	c := s.client(t, client.Config{Token: i.source(t, client.OIDCConfig{Audience: "tatara-chat", Scopes: []string{"a", "b"}})})
	together := func() {
		t.Helper()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := get(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	together()
	if n := i.grants.Load(); n != 1 {
		t.Errorf("%d grants", n)
	}
	i.mu.Lock()
	if i.lastForm != "audience=tatara-chat&grant_type=client_credentials&scope=a+b" || i.lastAuth == "" {
		t.Errorf("form %s", i.lastForm)
	}
	i.mu.Unlock()
	// The service takes t1 no longer: everybody needs t2, and one asks for it.
	valid.Store("t2")
	together()
	if n := i.grants.Load(); n != 2 {
		t.Errorf("%d grants", n)
	}
	// It takes nothing: one more grant, one more try, and that is it.
	valid.Store("nothing")
	at := len(s.requests())
	if err := get(t.Context(), c); !errors.Is(err, client.ErrUnauthorized) {
		t.Error(err)
	}
	if n := len(s.requests()) - at; n != 2 || i.grants.Load() != 3 {
		t.Errorf("%d requests, %d grants", n, i.grants.Load())
	}
}

// TestOIDCShortLife: a token is renewed before it expires.
func TestOIDCShortLife(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.life.Store(2) // a fifth of it is the margin
	source := i.source(t, client.OIDCConfig{})
	first, err := source.Token(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := source.Token(t.Context(), ""); err != nil || again != first {
		t.Errorf("%s, %v", again, err)
	}
	time.Sleep(1700 * time.Millisecond)
	if next, err := source.Token(t.Context(), ""); err != nil || next == first {
		t.Errorf("%s, %v", next, err)
	}
}

// TestOIDCAway: while the issuer is away, a token is used to its end.
func TestOIDCAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := false
		script := transport(func(r *http.Request) (*http.Response, error) {
			switch {
			case away:
				return answer(503, "<html>"), nil
			case r.Method == http.MethodGet:
				return answer(200, `{"issuer":"http://issuer","token_endpoint":"http://issuer/token"}`), nil
			}
			return answer(200, `{"access_token":"t1","token_type":"Bearer","expires_in":600}`), nil
		})
		source, err := client.OIDC(client.OIDCConfig{Issuer: "http://issuer", ClientID: "me", ClientSecret: "x", HTTP: &http.Client{Transport: script}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := source.Token(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		away = true
		time.Sleep(570 * time.Second) // within the margin
		if token, err := source.Token(t.Context(), ""); err != nil || token != "t1" {
			t.Errorf("%s, %v", token, err)
		}
		if _, err := source.Token(t.Context(), "t1"); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("a token that was refused: %v", err)
		}
		time.Sleep(31 * time.Second)
		if token, err := source.Token(t.Context(), ""); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("%s, %v", token, err)
		}
	})
}

func TestOIDCRefuses(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.status.Store(401)
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("called without a token") })
	c := s.client(t, client.Config{Token: i.source(t, client.OIDCConfig{}), Attempts: 5})
	start := time.Now()
	err := get(t.Context(), c)
	if !errors.Is(err, client.ErrToken) || !strings.Contains(err.Error(), "401 Unauthorized invalid_client who are you") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	if time.Since(start) > 5*time.Second {
		t.Error("it was asked again and again")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	i.delay = 100 * time.Millisecond
	if err := get(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestOIDCSecretFile: a secret that was replaced is used for the next token.
func TestOIDCSecretFile(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "secret")
	source := i.source(t, client.OIDCConfig{ClientSecretFile: file})
	if _, err := source.Token(t.Context(), ""); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	auth := map[string]bool{}
	rejected := ""
	for _, secret := range []string{"one\n", "two\n"} {
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if rejected, err = source.Token(t.Context(), rejected); err != nil {
			t.Fatal(err)
		}
		i.mu.Lock()
		auth[i.lastAuth] = true
		i.mu.Unlock()
	}
	if len(auth) != 2 {
		t.Errorf("%d secrets were sent", len(auth))
	}
}

func TestOIDCMistakes(t *testing.T) {
	t.Parallel()
	_, err := client.OIDC(client.OIDCConfig{Issuer: "nowhere", ClientSecret: "a", ClientSecretFile: "b"})
	for _, want := range []string{"issuer", "client id", "client secret"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	i := newIssuer(t)
	wrong, err := client.OIDC(client.OIDCConfig{Issuer: i.URL + "/realm", ClientID: "me", ClientSecret: "x", HTTP: i.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Token(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "discovering the issuer") {
		t.Error(err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("filed"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := newIssuer(t)
	tests := map[string]struct {
		env        map[string]string
		url, token string
	}{
		"nothing":   {},
		"chat":      {env: map[string]string{"TATARA_CHAT_URL": "http://c/api/v1/chat"}, url: "http://c/api/v1/chat"},
		"ledger":    {env: map[string]string{"TATARA_CHAT_URL": "http://c", "TATARA_LEDGER_URL": "http://l"}, url: "http://l"},
		"token":     {env: map[string]string{"TATARA_LEDGER_TOKEN": "given"}, token: "given"},
		"file":      {env: map[string]string{"TATARA_LEDGER_TOKEN": "given", "TATARA_LEDGER_TOKEN_FILE": file}, token: "filed"},
		"no client": {env: map[string]string{"TATARA_LEDGER_OIDC_ISSUER": i.URL}},
		"OIDC": {env: map[string]string{
			"TATARA_LEDGER_OIDC_ISSUER": i.URL, "TATARA_LEDGER_OIDC_CLIENT_ID": "me", "TATARA_LEDGER_OIDC_CLIENT_SECRET": "x",
			"TATARA_LEDGER_OIDC_CLIENT_SECRET_FILE": file, "TATARA_LEDGER_OIDC_SCOPES": "a, b", "TATARA_LEDGER_OIDC_AUDIENCE": "aud",
		}, token: "t1"},
	}
	for name, tt := range tests {
		cfg, err := client.Environment(func(name string) string { return tt.env[name] }).Config()
		if err != nil || cfg.BaseURL != tt.url {
			t.Errorf("%s: %+v, %v", name, cfg, err)
		}
		token := ""
		if cfg.Token != nil {
			if token, err = cfg.Token.Token(t.Context(), ""); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if token != tt.token {
			t.Errorf("%s: %q", name, token)
		}
	}
	if i.lastForm != "audience=aud&grant_type=client_credentials&scope=a+b" {
		t.Error(i.lastForm)
	}
	http.DefaultClient.CloseIdleConnections()
	_, err := client.Environment(func(name string) string {
		return map[string]string{"TATARA_LEDGER_OIDC_CLIENT_ID": "me"}[name]
	}).Config()
	if err == nil {
		t.Error("a client id alone is enough")
	}
}
