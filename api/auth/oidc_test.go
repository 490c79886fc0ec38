package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/auth/authtest"
)

type object = map[string]any

func TestClaims(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for _, c := range []struct {
		name   string
		claims object
		status int
		result string
	}{
		{"valid", nil, 200, resultOK},
		{"audience in an array", object{"aud": []string{"account", "tatara-chat"}}, 200, resultOK},
		{"second audience", object{"aud": "tatara-ledger"}, 200, resultOK},
		{"expired within the skew", object{"exp": in(-30 * time.Second)}, 200, resultOK},
		{"expired", object{"exp": in(-90 * time.Second)}, 401, resultExpired},
		{"no expiry", object{"exp": nil}, 401, resultMalformed},
		{"expiry as text", object{"exp": "tomorrow"}, 401, resultMalformed},
		{"expiry that overflows", object{"exp": 1e30}, 401, resultMalformed},
		{"nbf within the skew", object{"nbf": in(30 * time.Second)}, 200, resultOK},
		{"nbf", object{"nbf": in(90 * time.Second)}, 401, resultNotYet},
		{"iat in the future", object{"iat": in(90 * time.Second)}, 401, resultNotYet},
		{"no iat", object{"iat": nil}, 200, resultOK},
		{"audience", object{"aud": "account"}, 401, resultAudience},
		{"audiences", object{"aud": []string{"account", "tatara-chat-2"}}, 401, resultAudience},
		{"no audience", object{"aud": nil}, 401, resultAudience},
		{"audience of no text", object{"aud": 7}, 401, resultMalformed},
		{"issuer", object{"iss": "https://elsewhere.example"}, 401, resultIssuer},
		{"issuer with a slash", object{"iss": issuer.URL + "/"}, 401, resultIssuer},
		{"no issuer", object{"iss": nil}, 401, resultIssuer},
		{"no subject", object{"sub": nil}, 401, resultSubject},
		{"empty subject", object{"sub": ""}, 401, resultSubject},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := oidcConfig(issuer)
			cfg.Audiences = append(cfg.Audiences, "tatara-ledger")
			f := newFixture(t, cfg)
			got := f.get("Bearer " + issuer.Token(c.claims))
			f.want(got, c.status, c.result, 1)
			if c.status == 401 && !strings.Contains(got.challenge, `error="invalid_token", error_description="`+got.err.Message+`"`) {
				t.Errorf("WWW-Authenticate = %s", got.challenge)
			}
		})
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	good := issuer.Token(nil)
	counts := map[string]float64{}
	for _, c := range []struct {
		name   string
		header []string
		status int
		result string
	}{
		{"none", nil, 401, resultMissing},
		{"empty", []string{""}, 401, resultMissing},
		{"other scheme", []string{"Basic YWxhZGRpbjpvcGVuc2VzYW1l"}, 401, resultMissing},
		{"no scheme", []string{good}, 401, resultMissing},
		{"two", []string{"Bearer " + good, "Bearer " + good}, 401, resultMalformed},
		{"no token", []string{"Bearer"}, 401, resultMalformed},
		{"spaces", []string{"Bearer   "}, 401, resultMalformed},
		{"two tokens", []string{"Bearer " + good + " " + good}, 401, resultMalformed},
		{"control", []string{"Bearer \x01" + good}, 401, resultMalformed},
		{"no JWT", []string{"Bearer something-else"}, 401, resultMalformed},
		{"two parts", []string{"Bearer " + good[:strings.LastIndexByte(good, '.')]}, 401, resultMalformed},
		{"rubbish", []string{"Bearer a.b.c"}, 401, resultMalformed},
		{"huge", []string{"Bearer " + strings.Repeat("a", maxBearer+1)}, 401, resultMalformed},
		{"lower case", []string{"bearer " + good}, 200, resultOK},
		{"upper case", []string{"BEARER  " + good}, 200, resultOK},
	} {
		counts[c.result]++
		got := f.get(c.header...)
		f.want(got, c.status, c.result, counts[c.result])
		if coded := strings.Contains(got.challenge, "error"); c.status == 401 && coded != (c.result != resultMissing) {
			t.Errorf("%s: WWW-Authenticate = %s", c.name, got.challenge)
		}
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	encode := base64.RawURLEncoding.EncodeToString
	good := issuer.Token(nil)
	parts := strings.Split(good, ".")

	der, err := x509.MarshalPKIXPublicKey(issuer.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by := func(alg jose.SignatureAlgorithm, key any, kid string) string {
		return issuer.TokenBy(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	}
	altered := []byte(parts[1])
	altered[len(altered)/2] ^= 1

	counts := map[string]float64{}
	for _, c := range []struct{ name, token, result string }{
		{"none", encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", resultAlgorithm},
		{"None", encode([]byte(`{"alg":"None","kid":"key-1"}`)) + "." + parts[1] + ".", resultAlgorithm},
		{"no algorithm", encode([]byte(`{"kid":"key-1"}`)) + "." + parts[1] + "." + parts[2], resultAlgorithm},
		{"HS256 by the public key", by(jose.HS256, public, "key-1"), resultAlgorithm},
		{"HS256 by its DER", by(jose.HS256, der, "key-1"), resultAlgorithm},
		{"a foreign key under a known id", by(jose.RS256, other, "key-1"), resultSignature},
		{"another algorithm under a known id", by(jose.ES256, curve, "key-1"), resultSignature},
		{"a foreign key without an id", by(jose.RS256, other, ""), resultSignature},
		{"the provider's key for encryption", issuer.TokenAs("encryption", nil), resultSignature},
		{"another token's signature", strings.Join([]string{parts[0], strings.Split(issuer.Token(object{"sub": "admin"}), ".")[1], parts[2]}, "."), resultSignature},
		{"no signature", parts[0] + "." + parts[1] + ".", resultSignature},
	} {
		counts[c.result]++
		f.want(f.get("Bearer "+c.token), 401, c.result, counts[c.result])
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
	if got := f.get("Bearer " + parts[0] + "." + string(altered) + "." + parts[2]); got.status != 401 {
		t.Errorf("an altered token is taken: %+v", got.id)
	}
	f.want(f.get("Bearer "+good), 200, resultOK, 1)
	if _, keys := issuer.Fetches(); keys > 2 {
		t.Errorf("%d fetches of keys", keys)
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	token := issuer.Token(object{"exp": time.Now().Add(-45 * time.Second).Unix()})
	f.want(f.get("Bearer "+token), 200, resultOK, 1)
	f.want(f.get("Bearer "+token), 200, resultOK, 2)
	f.clock.advance(20 * time.Second) // beyond exp and skew, within cacheFor
	f.want(f.get("Bearer "+token), 401, resultExpired, 1)

	c := newCache()
	now := time.Now()
	for n := range cacheTokens + 10 {
		c.add(fingerprint{byte(n), byte(n >> 8)}, verified{until: now.Add(time.Minute)})
	}
	if len(c.tokens) != cacheTokens {
		t.Errorf("the cache holds %d tokens, want %d", len(c.tokens), cacheTokens)
	}
	if _, ok := c.find(fingerprint{byte(cacheTokens & 0xff), byte(cacheTokens >> 8)}, fingerprint{}, now.Add(time.Minute)); ok {
		t.Error("a token is found when its time is over")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	agents := ScopesOf(Read, Ingest, Write)
	for _, c := range []struct {
		claims object
		want   Identity
	}{
		{object{"preferred_username": "ada", "azp": "board"}, Identity{"agent", "ada", agents}},
		{object{"preferred_username": "", "azp": "agents"}, Identity{"agent", "agents", agents}},
		{object{"preferred_username": 7}, Identity{"agent", "agent", agents}},
	} {
		if diff := cmp.Diff(c.want, f.get("Bearer "+issuer.Token(c.claims)).id); diff != "" {
			t.Error(diff)
		}
	}
}

func TestClaimedScopes(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	cfg := oidcConfig(issuer)
	cfg.ScopesClaim = "realm_access.roles"
	cfg.ScopeMap = map[string]Scopes{"viewers": ScopesOf(Read), "owners": ScopesOf(Read, Admin)}
	roles := func(v any) object { return object{"realm_access": object{"roles": v}} }
	for _, c := range []struct {
		name   string
		claims object
		want   string
	}{
		{"array", roles([]string{"viewers", "other"}), "read"},
		{"union", roles([]string{"owners", "viewers"}), "read,admin"},
		{"string", roles("other owners"), "read,admin"},
		{"no mapped value", roles([]string{"other"}), "read,ingest"},
		{"absent", nil, "read,ingest"},
		{"no object", object{"realm_access": "viewers"}, "read,ingest"},
		{"no text", roles([]any{7, object{}}), "read,ingest"},
		{"a name with a dot", object{"realm_access.roles": "viewers"}, "read"},
	} {
		cfg.DefaultScopes = ScopesOf(Read, Ingest)
		if got := newFixture(t, cfg).get("Bearer " + issuer.Token(c.claims)).id.Scopes.String(); got != c.want {
			t.Errorf("%s: scopes %q, want %q", c.name, got, c.want)
		}
	}
	cfg.DefaultScopes = 0
	f := newFixture(t, cfg)
	if got := f.get("Bearer " + issuer.Token(nil)).id; got.Scopes != 0 || got.Subject != "agent" {
		t.Errorf("without default scopes: %+v", got)
	}
}

func BenchmarkVerify(b *testing.B) {
	issuer := authtest.New()
	defer issuer.Close()
	cfg := oidcConfig(issuer)
	for _, cached := range []bool{true, false} {
		b.Run("cached="+strconv.FormatBool(cached), func(b *testing.B) {
			a := newBenchmarked(b, cfg)
			token := issuer.Token(nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
				if !cached {
					clear(a.issuer.cache.tokens)
				}
			}
		})
	}
}
