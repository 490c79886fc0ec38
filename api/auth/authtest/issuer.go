// Package authtest is an OpenID Connect provider on loopback for tests: real
// keys, discovery, and a token endpoint for client credentials.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Audience is that of the tokens, unless their claims say otherwise.
const Audience = "tatara-chat"

// Lifetime is that of the tokens, unless their claims say otherwise.
const Lifetime = time.Hour

// Issuer is a provider. It is safe for concurrent use.
type Issuer struct {
	// URL is the issuer, for --oidc-issuer.
	URL string

	server *httptest.Server

	mu          sync.Mutex
	key         crypto.Signer
	alg         jose.SignatureAlgorithm
	kid         string
	rotations   int
	clients     map[string]client
	down        bool
	discoveries int
	keyFetches  int
}

type client struct {
	secret string
	claims map[string]any
}

// New starts a provider with an RSA key. Close it.
func New() *Issuer {
	i := &Issuer{clients: map[string]client{}}
	i.Rotate(jose.RS256)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("POST /token", i.token)
	i.server = httptest.NewServer(mux)
	i.URL = i.server.URL
	return i
}

// Close stops the provider.
func (i *Issuer) Close() { i.server.Close() }

// Rotate exchanges the key: the old one is withdrawn at once. alg is RS256 or
// ES256.
func (i *Issuer) Rotate(alg jose.SignatureAlgorithm) {
	var key crypto.Signer
	var err error
	if alg == jose.ES256 {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		panic(err) // no randomness
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rotations++
	i.key, i.alg, i.kid = key, alg, "key-"+strconv.Itoa(i.rotations)
}

// SetDown makes the provider answer nothing but 502, or work again.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Fetches is how often discovery and the keys were asked for.
func (i *Issuer) Fetches() (discoveries, keys int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.discoveries, i.keyFetches
}

// PublicKey is the current one.
func (i *Issuer) PublicKey() crypto.PublicKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.key.Public()
}

// AddClient registers a client of the token endpoint. claims are what its
// tokens carry besides the usual.
func (i *Issuer) AddClient(id, secret string, claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.clients[id] = client{secret, claims}
}

// Token signs a token with the current key. It has iss, aud, sub, iat and exp,
// unless claims replace them; a nil claim is left out.
func (i *Issuer) Token(claims map[string]any) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(i.signing(i.kid), claims)
}

// TokenAs is Token under another key's id. The current key is published as
// "encryption" too, for that use alone.
func (i *Issuer) TokenAs(kid string, claims map[string]any) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(i.signing(kid), claims)
}

func (i *Issuer) signing(kid string) jose.SigningKey {
	return jose.SigningKey{Algorithm: i.alg, Key: jose.JSONWebKey{Key: i.key, KeyID: kid}}
}

// TokenBy signs a token with another key, such as a jose.JSONWebKey of an
// unknown KeyID.
func (i *Issuer) TokenBy(key jose.SigningKey, claims map[string]any) string {
	return i.sign(key, claims)
}

func (i *Issuer) sign(key jose.SigningKey, claims map[string]any) string {
	now := time.Now()
	all := map[string]any{
		"iss": i.URL, "aud": Audience, "sub": "agent", "iat": now.Unix(), "exp": now.Add(Lifetime).Unix(),
	}
	for name, value := range claims {
		all[name] = value
		if value == nil {
			delete(all, name)
		}
	}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		panic(err) // a key that does not fit its algorithm
	}
	token, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		panic(err) // claims that are no JSON
	}
	return token
}

// answers counts a request, and reports whether it is to be answered.
func (i *Issuer) answers(w http.ResponseWriter, count *int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if count != nil {
		*count++
	}
	if i.down {
		http.Error(w, "down", http.StatusBadGateway)
	}
	return !i.down
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	if !i.answers(w, &i.discoveries) {
		return
	}
	write(w, http.StatusOK, map[string]any{
		"issuer":                                i.URL,
		"authorization_endpoint":                i.URL + "/authorize",
		"token_endpoint":                        i.URL + "/token",
		"jwks_uri":                              i.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256"},
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	if !i.answers(w, &i.keyFetches) {
		return
	}
	i.mu.Lock()
	key := jose.JSONWebKey{Key: i.key.Public(), KeyID: i.kid, Algorithm: string(i.alg), Use: "sig"}
	i.mu.Unlock()
	// As of real providers: keys for encryption, and of kinds that we do not know.
	write(w, http.StatusOK, map[string]any{"keys": []any{
		map[string]any{"kty": "OKP", "crv": "Ed448", "kid": "unknown-kind", "x": "AAAA"},
		jose.JSONWebKey{Key: key.Key, KeyID: "encryption", Use: "enc"},
		key,
	}})
}

// token is the grant of client credentials, with the id and secret in the form
// or in the Authorization header.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if !i.answers(w, nil) {
		return
	}
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if r.PostFormValue("grant_type") != "client_credentials" {
		write(w, http.StatusBadRequest, map[string]any{"error": "unsupported_grant_type"})
		return
	}
	i.mu.Lock()
	c, known := i.clients[id]
	i.mu.Unlock()
	if !known || c.secret != secret {
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	claims := map[string]any{"sub": "service-account-" + id, "azp": id}
	for name, value := range c.claims {
		claims[name] = value
	}
	write(w, http.StatusOK, map[string]any{
		"access_token": i.Token(claims), "token_type": "Bearer", "expires_in": int(Lifetime.Seconds()),
	})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a test that is gone needs no answer
}
