package auth

import (
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

func newBenchmarked(b *testing.B, cfg Config) *Authenticator {
	b.Helper()
	a, err := New(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	return a
}

func TestWithoutAuthentication(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.RunPerMinute, cfg.SubjectPerMinute = 1, 1
	f := newFixture(t, cfg)
	for range 3 {
		got := f.get()
		if diff := cmp.Diff(answer{status: 200, id: Local()}, got, cmp.AllowUnexported(answer{})); diff != "" {
			t.Error(diff)
		}
	}
	if got := Local().Scopes.String(); got != "read,ingest,write,admin" {
		t.Errorf("scopes of local callers: %s", got)
	}
	if n := f.results(resultOK); n != 0 {
		t.Errorf("%v requests counted without authentication", n)
	}
}

func TestRequire(t *testing.T) {
	t.Parallel()
	f := newFixture(t, tokensConfig(t, twoTokens()))
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { envelope.JSON(w, 200, From(r.Context())) })
	f.http = f.Authenticate(Require(Ingest)(ok))
	f.want(f.get("Bearer "+otelToken), 200, resultOK, 1)
	got := f.get("Bearer " + grafanaToken)
	f.want(got, 403, resultScope, 1)
	want := `Bearer realm="tatara-ledger", error="insufficient_scope", error_description="the token lacks the scope ingest", scope="ingest"`
	if got.challenge != want {
		t.Errorf("WWW-Authenticate = %s, want %s", got.challenge, want)
	}
	// A route that forgot Authenticate lets nobody in.
	bare := httptest.NewRequest(http.MethodGet, "/", nil)
	if got := f.do(Require(Read)(ok), bare); got.status != 403 {
		t.Errorf("without authentication: %d", got.status)
	}
	granted := bare.WithContext(With(t.Context(), Identity{Scopes: ScopesOf(Read)}))
	if got := f.do(Require(Read)(ok), granted); got.status != 200 {
		t.Errorf("with an identity in the context: %d", got.status)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	cfg := tokensConfig(t, twoTokens())
	cfg.RunPerMinute, cfg.SubjectPerMinute = 3, 10
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, cfg)
		send := func(token, run string) answer {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			if run != "" {
				r.Header.Set(envelope.RequestIDHeader, run)
			}
			return f.do(f.http, r)
		}
		accepted := func(n int, token, run string) {
			t.Helper()
			got := 0
			for range 20 {
				a := send(token, run)
				switch {
				case a.status == 200:
					got++
				case a.status != 429 || a.retry != "10" || a.err.Hint == "":
					t.Errorf("%+v", a)
				}
			}
			if got != n {
				t.Errorf("%d requests of run %q passed, want %d", got, run, n)
			}
		}
		accepted(3, otelToken, "a")
		accepted(3, otelToken, "b")
		accepted(4, otelToken, "") // of no run: what is left of the subject's 10
		accepted(0, otelToken, "c")
		accepted(3, grafanaToken, "a") // another subject
		limited := func(which string) float64 {
			return testutil.ToFloat64(f.metrics.limited.WithLabelValues(which))
		}
		if run, subject := limited(limitRun), limited(limitSubject); run != 3*17 || subject != 16+20 {
			t.Errorf("%v refused by run and %v by subject", run, subject)
		}
		time.Sleep(2 * window)
		accepted(3, otelToken, "a")
	})
}

func TestInventedRunsTakeNoMemory(t *testing.T) {
	t.Parallel()
	cfg := tokensConfig(t, twoTokens())
	cfg.RunPerMinute, cfg.SubjectPerMinute = 3, 100
	f := newFixture(t, cfg)
	passed := 0
	for n := range 1000 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+otelToken)
		r.Header.Set(envelope.RequestIDHeader, strconv.Itoa(n))
		if f.do(f.http, r).status == 200 {
			passed++
		}
	}
	// Two windows of one subject at most, if one ended meanwhile.
	if passed < 100 || passed > 200 {
		t.Errorf("%d of 1000 requests passed, want 100", passed)
	}
	if n := testutil.ToFloat64(f.metrics.limited.WithLabelValues(limitRun)); n != 0 {
		t.Errorf("%v were refused by run", n)
	}
	if _, rate, _ := f.limits.run.Status("token:otel\n999"); passed == 100 && rate != 0 {
		t.Error("a run of a subject at its limit is remembered")
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	parse := func(args ...string) (Config, error) {
		cfg := DefaultConfig()
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		cfg.Flags(fs)
		if err := fs.Parse(args); err != nil {
			return cfg, err
		}
		return cfg, cfg.Validate()
	}
	got, err := parse("--oidc-issuer=https://id.example/realms/a", "--oidc-audience=x", "--oidc-audience=y", "--oidc-scopes-claim=groups",
		"--oidc-scope=owners=admin,owners=read", `--oidc-scope="cn=v,ou=groups=read"`, "--oidc-default-scopes=", "--oidc-clock-skew=0s")
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Issuer, want.Audiences, want.ScopesClaim = "https://id.example/realms/a", []string{"x", "y"}, "groups"
	want.ScopeMap = map[string]Scopes{"owners": ScopesOf(Read, Admin), "cn=v,ou=groups": ScopesOf(Read)}
	want.DefaultScopes, want.ClockSkew = 0, 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if text := (*scopeMap)(&got.ScopeMap).String(); text != `"cn=v,ou=groups=read",owners=read,owners=admin` {
		t.Errorf("the map prints as %s", text)
	}
	if cfg, err := parse(); err != nil || cfg.Enabled() {
		t.Errorf("the defaults: %v, %v", cfg.Enabled(), err)
	}
	for _, args := range []string{
		"--oidc-issuer=id.example", "--oidc-issuer=ldap://id.example", "--oidc-issuer=https://u:p@id.example", "--oidc-issuer=https://id.example?a",
		"--oidc-issuer=https://id.example --oidc-audience=", "--oidc-clock-skew=-1s", "--oidc-clock-skew=11m",
		"--oidc-scopes-claim=roles", "--oidc-scope=a=read", "--oidc-scope=a=root", "--oidc-scope=a=", "--oidc-scope=read", "--oidc-scope==read", "--oidc-scope=",
		"--oidc-default-scopes=root", "--rate-limit-run=-1", "--rate-limit-subject=0",
	} {
		if _, err := parse(strings.Fields(args)...); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
	if _, err := parse("--rate-limit-subject=0", "--rate-limit-run=0"); err != nil {
		t.Errorf("no limits: %v", err)
	}
}

func TestProviderAnswers(t *testing.T) {
	t.Parallel()
	const keys = `{"keys":[{"kty":"EC","kid":"k","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`
	for _, c := range []struct{ name, discovery, keys, want string }{
		{"good", "", keys, ""},
		{"another issuer", `{"issuer":"https://elsewhere.example","jwks_uri":"URL/keys"}`, keys, "did not match"},
		{"no document", "<html>", keys, "discovering the provider"},
		{"no address", `{"issuer":"URL"}`, keys, "no jwks_uri"},
		{"no keys", "", `{"keys":[]}`, "no key that verifies"},
		{"no key set", "", `[]`, "no JSON key set"},
		{"shared secrets alone", "", `{"keys":[{"kty":"oct","kid":"s","k":"c2VjcmV0"}]}`, "no key that verifies"},
		{"private keys alone", "", strings.Replace(keys, `"kty"`, `"d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI","kty"`, 1), "no key that verifies"},
		{"huge", "", keys + strings.Repeat(" ", fetchBytes), "too large"},
		{"huge discovery", strings.Repeat(" ", fetchBytes+1), keys, "too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text := c.keys
				if r.URL.Path != "/keys" {
					text = strings.ReplaceAll(c.discovery, "URL", server.URL)
					if text == "" {
						text = `{"issuer":"` + server.URL + `","jwks_uri":"` + server.URL + `/keys"}`
					}
				}
				_, _ = io.WriteString(w, text)
			}))
			defer server.Close()
			cfg := DefaultConfig()
			cfg.Issuer = server.URL
			f := newFixture(t, cfg)
			set, err := f.issuer.keys.current(t.Context())
			if c.want == "" {
				if err != nil || len(set.keys) != 1 {
					t.Errorf("%v, %v", set, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

func TestTrustOfTheProvider(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// Over TLS, and its keys are not.
		_, _ = io.WriteString(w, `{"issuer":"`+server.URL+`","jwks_uri":"http://127.0.0.1:1/keys"}`)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	defer server.Close()
	cfg := DefaultConfig()
	cfg.Issuer = server.URL
	_, err := newFixture(t, cfg).issuer.keys.current(t.Context())
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a provider that nobody vouches for: %v", err)
	}
	cfg.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	if _, err := newClient(cfg); err == nil {
		t.Error("a missing file of authorities is taken")
	}
	writeFile(t, cfg.CAFile, "none")
	if _, err := newClient(cfg); err == nil {
		t.Error("a file without authorities is taken")
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(cfg.CAFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = newFixture(t, cfg).issuer.keys.current(t.Context())
	if err == nil || !strings.Contains(err.Error(), "refers from https to http") {
		t.Errorf("keys without TLS: %v", err)
	}
}

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	issuer.AddClient("agents", "s3cret", map[string]any{"aud": []string{"account", "tatara-chat"}})
	f := newFixture(t, oidcConfig(issuer))
	grant := func(secret string) (int, string) {
		t.Helper()
		res, err := http.PostForm(issuer.URL+"/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"agents"}, "client_secret": {secret}})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(body), `"access_token":"`)
		token, _, _ := strings.Cut(rest, `"`)
		return res.StatusCode, token
	}
	if status, _ := grant("wrong"); status != 401 {
		t.Errorf("a wrong secret: %d", status)
	}
	_, token := grant("s3cret")
	got := f.get("Bearer " + token)
	f.want(got, 200, resultOK, 1)
	if diff := cmp.Diff(Identity{"service-account-agents", "agents", ScopesOf(Read, Ingest, Write)}, got.id); diff != "" {
		t.Error(diff)
	}
	http.DefaultClient.CloseIdleConnections()
}
