package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

const (
	grafanaToken = "grafana-secret-0123456789"
	otelToken    = "otel.secret.0123456789"
)

func hexOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func tokensConfig(t *testing.T, text string) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.TokensFile = filepath.Join(t.TempDir(), "tokens.yaml")
	writeFile(t, cfg.TokensFile, text)
	return cfg
}

func twoTokens() string {
	return "- name: grafana\n  sha256: " + strings.ToUpper(hexOf(grafanaToken)) + "\n  scopes: [read]\n" +
		"- name: otel\n  token: " + otelToken + "\n  scopes: [ingest, read]\n"
}

func TestStaticTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t, tokensConfig(t, twoTokens()))
	got := f.get("bearer " + grafanaToken)
	f.want(got, 200, resultOK, 1)
	if diff := cmp.Diff(Identity{"token:grafana", "grafana", ScopesOf(Read)}, got.id); diff != "" {
		t.Error(diff)
	}
	got = f.get("Bearer " + otelToken)
	f.want(got, 200, resultOK, 2)
	if diff := cmp.Diff(Identity{"token:otel", "otel", ScopesOf(Read, Ingest)}, got.id); diff != "" {
		t.Error(diff)
	}
	f.want(f.get("Bearer "+grafanaToken+"x"), 401, resultUnknown, 1)
	f.want(f.get("Bearer "+hexOf(grafanaToken)), 401, resultUnknown, 2)
	f.want(f.get(), 401, resultMissing, 1)
}

func TestStaticTokensBesideOIDC(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	cfg := tokensConfig(t, twoTokens())
	cfg.Issuer = issuer.URL
	f := newFixture(t, cfg)
	f.want(f.get("Bearer "+otelToken), 200, resultOK, 1) // though it has three parts
	f.want(f.get("Bearer "+issuer.Token(nil)), 200, resultOK, 2)
	f.want(f.get("Bearer no-such-token-0123"), 401, resultUnknown, 1)
	f.want(f.get("Bearer no.such.token"), 401, resultMalformed, 1)
}

func TestTokensFileRotation(t *testing.T) {
	t.Parallel()
	// As Kubernetes mounts a secret: the file is a link through ..data, which is
	// exchanged. Both files have one time and one size.
	dir := t.TempDir()
	when := time.Now().Add(-time.Hour)
	const first, second = "first-secret-0123456789", "other-secret-0123456789"
	for name, token := range map[string]string{"1": first, "2": second} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name, "tokens.yaml")
		writeFile(t, file, "- {name: a, token: "+token+", scopes: [read]}\n")
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("1", "..data")
	link("..data/tokens.yaml", "tokens.yaml")
	cfg := DefaultConfig()
	cfg.TokensFile = filepath.Join(dir, "tokens.yaml")
	f := newFixture(t, cfg)
	f.want(f.get("Bearer "+first), 200, resultOK, 1)

	link("2", "..data")
	f.want(f.get("Bearer "+first), 200, resultOK, 2) // not yet looked at
	f.clock.advance(checkEvery)
	f.want(f.get("Bearer "+first), 401, resultUnknown, 1)
	f.want(f.get("Bearer "+second), 200, resultOK, 3)
	f.clock.advance(checkEvery)
	f.get("Bearer " + second)
	if n := testutil.ToFloat64(f.metrics.reloads.WithLabelValues("ok")); n != 1 {
		t.Errorf("%v readings, want 1", n)
	}
}

func TestBrokenTokensFileKeepsTheOld(t *testing.T) {
	t.Parallel()
	cfg := tokensConfig(t, twoTokens())
	f := newFixture(t, cfg)
	failed := func() float64 { return testutil.ToFloat64(f.metrics.reloads.WithLabelValues("failed")) }
	for n, text := range []string{"", "- name: [", "- {name: a, token: short, scopes: [read]}"} {
		writeFile(t, cfg.TokensFile, text)
		for range 3 {
			f.clock.advance(checkEvery)
			if got := f.get("Bearer " + grafanaToken); got.status != 200 {
				t.Errorf("with the file %q: %d", text, got.status)
			}
		}
		if got := failed(); got != float64(n+1) {
			t.Errorf("%v failed readings after %d broken files", got, n+1)
		}
	}
	if n := strings.Count(f.log.String(), "the old tokens stay"); n != 3 {
		t.Errorf("three broken files were logged %d times", n)
	}
	if err := os.Remove(cfg.TokensFile); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.clock.advance(checkEvery)
		if got := f.get("Bearer " + otelToken); got.status != 200 {
			t.Errorf("without a file: %d", got.status)
		}
	}
	if n := failed(); n != 6 {
		t.Errorf("%v failed readings, want each second without a file counted: 6", n)
	}
	writeFile(t, cfg.TokensFile, "[]\n")
	f.clock.advance(checkEvery)
	f.want(f.get("Bearer "+grafanaToken), 401, resultUnknown, 1)
}

func TestParseTokens(t *testing.T) {
	t.Parallel()
	const secret = "very-secret-0123456789"
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty: no tokens are written []"},
		{"# nothing\n", "the file is empty: no tokens are written []"},
		{"null\n", "the file has no list: no tokens are written []"},
		{secret, "line 1 is no list of name, token or sha256, and scopes"},
		{secret + ": x", "line 1 is no list of name, token or sha256, and scopes"},
		{"- " + secret, "line 1 is no list of name, token or sha256, and scopes"},
		{"- *" + secret, "the file is no list of name, token or sha256, and scopes"},
		{"- name: a\n  tokn: " + secret, "line 2 is no list of name, token or sha256, and scopes"},
		{"- name: a\n  " + secret + ": b", "line 2 is no list of name, token or sha256, and scopes"},
		{"- name: a\n  token: [" + secret + "]", "line 2 is no list of name, token or sha256, and scopes"},
		{"[]\n---\n[]", "the file has more than one document"},
		{"- {token: " + secret + ", scopes: [read]}", "token 1: it needs a name of 1 to 128 visible ASCII characters without spaces"},
		{"- {name: a b, token: " + secret + ", scopes: [read]}", "token 1: it needs a name of 1 to 128 visible ASCII characters without spaces"},
		{"- {name: a, scopes: [read]}", "token 1: (a) it needs either token or sha256"},
		{"- {name: a, token: " + secret + ", sha256: " + hexOf(secret) + ", scopes: [read]}", "token 1: (a) it needs either token or sha256"},
		{"- {name: a, token: secret-01234567, scopes: [read]}", "token 1: (a) its token must have 16 to 16384 characters"},
		{"- {name: a, token: very secret 0123456789, scopes: [read]}", "token 1: (a) its token must be visible ASCII characters without spaces"},
		{"- {name: a, sha256: " + secret + ", scopes: [read]}", "token 1: (a) its sha256 is not 64 hexadecimal digits"},
		{"- {name: a, sha256: abcd, scopes: [read]}", "token 1: (a) its sha256 is not 64 hexadecimal digits"},
		{"- {name: a, token: " + secret + "}", "token 1: (a) it has no scopes: there are read,ingest,write,admin"},
		{"- {name: a, token: " + secret + ", scopes: [root]}", "token 1: (a) one of its scopes does not exist: there are read,ingest,write,admin"},
		{"- {name: a, token: " + secret + ", scopes: [read]}\n- {name: b, sha256: " + hexOf(secret) + ", scopes: [admin]}", "token 2 (b): the same token is there twice"},
		{"- {name: a, token: " + secret + ", scopes: [read]}\n- {name: a, token: x" + secret + ", scopes: [read]}", "token 2: the name a is there twice"},
	} {
		_, err := parseTokens([]byte(c.text))
		if err == nil {
			t.Errorf("%q is taken", c.text)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.text, err, c.want)
		}
	}
	if set, err := parseTokens([]byte("[]")); err != nil || len(set) != 0 {
		t.Errorf("[]: %v, %v", set, err)
	}
}

func TestTokensFileMustBeRightAtTheStart(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "- {name: a}", strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 1100)} {
		if _, err := openTokens(tokensConfig(t, text).TokensFile, nil, nil, time.Now); err == nil {
			t.Errorf("a file of %.20q is taken", text)
		}
	}
	if _, err := openTokens(filepath.Join(t.TempDir(), "none"), nil, nil, time.Now); err == nil {
		t.Error("a missing file is taken")
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add(twoTokens())
	f.Add("- {name: a, token: x}")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := parseTokens([]byte(text))
		for _, id := range set {
			if id.Scopes == 0 || id.Name == "" || err != nil {
				t.Errorf("%+v, %v", id, err)
			}
		}
	})
}
