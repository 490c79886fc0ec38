package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTokenWithoutKeyID(t *testing.T) {
	t.Parallel()
	// One key and no ids: RFC 7515 leaves kid out of both.
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	f.get("Bearer " + issuer.Token(nil))
	set := *f.issuer.keys.set.Load()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set.keys = append(set.keys, jose.JSONWebKey{Key: key.Public()})
	f.issuer.keys.set.Store(&set)
	token := issuer.TokenBy(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	f.want(f.get("Bearer "+token), 200, resultOK, 2)
}

func TestRotation(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	old := issuer.Token(nil)
	f.want(f.get("Bearer "+old), 200, resultOK, 1)

	issuer.Rotate(jose.ES256)
	fresh := issuer.Token(nil)
	// The keys were fetched just now: a token of an unknown key does not make
	// us ask again at once.
	f.want(f.get("Bearer "+fresh), 401, resultSignature, 1)
	f.clock.advance(fetchEvery)
	f.want(f.get("Bearer "+fresh), 200, resultOK, 2)
	// The old key is withdrawn, and what was verified with it is forgotten.
	f.want(f.get("Bearer "+old), 401, resultSignature, 2)
	if discoveries, keys := issuer.Fetches(); discoveries != 1 || keys != 2 {
		t.Errorf("%d discoveries and %d fetches of keys, want 1 and 2", discoveries, keys)
	}
}

func TestWithdrawnKeyIsNoticed(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	old := issuer.Token(nil)
	f.want(f.get("Bearer "+old), 200, resultOK, 1)
	issuer.Rotate(jose.ES256)
	f.clock.advance(refreshAfter + time.Second)
	f.get("Bearer " + old) // makes us ask, and does not wait for it
	eventually(t, func() bool { _, keys := issuer.Fetches(); return keys == 2 })
	eventually(t, func() bool { return f.get("Bearer "+old).status == 401 })
}

func TestRediscovery(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	f.get("Bearer " + issuer.Token(nil))
	for range 3 {
		f.clock.advance(fetchEvery)
		issuer.Rotate(jose.ES256)
		f.get("Bearer " + issuer.Token(nil))
	}
	if discoveries, keys := issuer.Fetches(); discoveries != 1 || keys != 4 {
		t.Errorf("%d discoveries and %d fetches of keys, want 1 and 4", discoveries, keys)
	}
	for range 2 {
		f.clock.advance(rediscoverAfter - 30*time.Minute)
		issuer.Rotate(jose.ES256)
		f.get("Bearer " + issuer.Token(object{"exp": f.clock.now().Add(time.Hour).Unix(), "iat": f.clock.now().Unix()}))
	}
	if discoveries, _ := issuer.Fetches(); discoveries != 2 {
		t.Errorf("%d discoveries after more than an hour, want 2", discoveries)
	}
}

func TestProviderAway(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	issuer.SetDown(true)
	f := newFixture(t, oidcConfig(issuer))
	token := issuer.Token(nil)
	for n := range 3 {
		got := f.get("Bearer " + token)
		f.want(got, 503, resultUnavailable, float64(n+1))
		if got.retry != "5" || got.challenge != "" {
			t.Errorf("Retry-After %q, WWW-Authenticate %q", got.retry, got.challenge)
		}
	}
	if discoveries, _ := issuer.Fetches(); discoveries != 1 {
		t.Errorf("%d requests to a provider that is down, want 1", discoveries)
	}
	// What needs no provider is refused as ever.
	f.want(f.get("Bearer "+issuer.Token(object{"exp": 1})), 401, resultExpired, 1)
	f.want(f.get(), 401, resultMissing, 1)

	issuer.SetDown(false)
	f.clock.advance(fetchEvery)
	f.want(f.get("Bearer "+token), 200, resultOK, 1)

	// Away again: known keys go on, unknown ones cannot be told.
	issuer.SetDown(true)
	issuer.Rotate(jose.ES256)
	f.clock.advance(refreshAfter + time.Second)
	f.want(f.get("Bearer "+token), 200, resultOK, 2)
	eventually(t, func() bool { return testutil.ToFloat64(f.metrics.fetches.WithLabelValues("failed")) == 2 })
	f.want(f.get("Bearer "+issuer.Token(nil)), 503, resultUnavailable, 4)
	f.want(f.get("Bearer "+token), 200, resultOK, 3)
	issuer.SetDown(false)
	f.clock.advance(fetchEvery)
	f.want(f.get("Bearer "+issuer.Token(nil)), 200, resultOK, 4)

	if n := strings.Count(f.log.String(), "cannot be fetched"); n != 2 {
		t.Errorf("two outages were logged %d times:\n%s", n, f.log)
	}
	if n := strings.Count(f.log.String(), "answers again"); n != 2 {
		t.Errorf("two recoveries were logged %d times:\n%s", n, f.log)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	issuer.Close()
	f := newFixture(t, oidcConfig(issuer))
	f.want(f.get("Bearer "+issuer.Token(nil)), 503, resultUnavailable, 1)
}

func TestUnknownKeysDoNotHammer(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := issuer.Token(nil)
	const tokens = 1000
	var callers sync.WaitGroup
	for worker := range 10 {
		callers.Go(func() {
			for n := range tokens / 10 {
				kid := strconv.Itoa(worker*tokens + n)
				f.get("Bearer " + issuer.TokenBy(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil))
				if n%10 == 0 {
					f.get("Bearer " + good)
				}
			}
		})
	}
	callers.Wait()
	if n := f.results(resultSignature); n != tokens {
		t.Errorf("%v tokens of unknown keys were refused, want %d", n, tokens)
	}
	if n := f.results(resultOK); n != 100 {
		t.Errorf("%v good tokens were taken meanwhile, want 100", n)
	}
	if discoveries, keys := issuer.Fetches(); discoveries != 1 || keys != 1 {
		t.Errorf("%d tokens of unknown keys made %d discoveries and %d fetches, want 1 and 1", tokens, discoveries, keys)
	}
}

func TestBadSignatureOfKnownKeyFetchesNothing(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	good := issuer.Token(nil)
	f.want(f.get("Bearer "+good), 200, resultOK, 1)
	f.clock.advance(fetchEvery)
	forged := good[:strings.LastIndexByte(good, '.')] + ".AAAA"
	f.want(f.get("Bearer "+forged), 401, resultSignature, 1)
	if _, keys := issuer.Fetches(); keys != 1 {
		t.Errorf("%d fetches of keys, want 1", keys)
	}
}

func TestForeignTokensNeedNoKeys(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	f := newFixture(t, oidcConfig(issuer))
	f.get("Bearer " + issuer.Token(object{"iss": "https://elsewhere.example"}))
	if discoveries, keys := issuer.Fetches(); discoveries+keys != 0 {
		t.Errorf("%d requests to the provider for another's token", discoveries+keys)
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}
