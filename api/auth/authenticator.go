package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// maxBearer bounds a token before anything is computed from it. Those of
// providers with many roles have some KiB.
const maxBearer = 16 << 10

// Authenticator knows who makes a request. It is safe for concurrent use.
//
// A static token is an element of the list in [Config.TokensFile]:
//
//   - name: grafana
//     sha256: <what "printf %s $TOKEN | sha256sum" prints>
//     scopes: [read]
//   - name: otel
//     token: <16 characters or more>
//     scopes: [ingest]
type Authenticator struct {
	enabled bool
	issuer  *verifier   // nil: no provider
	tokens  *tokensFile // nil: no static tokens
	limits  *limits
	metrics *metrics
}

// New makes an authenticator of a valid configuration. It reads the files that
// are configured, and does not call the provider: that happens when the first
// token comes.
func New(cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Authenticator, error) {
	return newAuthenticator(cfg, log, reg, time.Now)
}

func newAuthenticator(cfg Config, log *slog.Logger, reg prometheus.Registerer, now func() time.Time) (*Authenticator, error) {
	log = log.With("component", "auth")
	m := newMetrics(reg)
	a := &Authenticator{enabled: cfg.Enabled(), metrics: m, limits: newLimits(cfg, m)}
	if cfg.Issuer != "" {
		client, err := newClient(cfg)
		if err != nil {
			return nil, err
		}
		a.issuer = &verifier{
			expected: jwt.Expected{Issuer: cfg.Issuer, AnyAudience: cfg.Audiences},
			skew:     cfg.ClockSkew,
			scopes:   claimScopes{claim: cfg.ScopesClaim, grants: cfg.ScopeMap, fallback: cfg.DefaultScopes},
			keys:     &keySource{issuer: cfg.Issuer, client: client, log: log, metrics: m, now: now},
			cache:    newCache(),
			now:      now,
		}
	}
	if cfg.TokensFile != "" {
		var err error
		if a.tokens, err = openTokens(cfg.TokensFile, log, m, now); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Authenticate lets only requests with a valid bearer token pass, and puts
// their [Identity] into the context. Where authentication is not configured
// all pass, as [Local].
func (a *Authenticator) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := Local()
		if a.enabled {
			var err error
			if id, err = a.request(r); err != nil {
				a.refuse(w, err)
				return
			}
			a.metrics.request(resultOK)
		}
		ctx := context.WithValue(r.Context(), contextKey{}, caller{Identity: id, metrics: a.metrics})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (a *Authenticator) refuse(w http.ResponseWriter, err error) {
	var refused *refusal
	if !errors.As(err, &refused) {
		refused = unavailable()
	}
	a.metrics.request(refused.result)
	refused.write(w)
}

func (a *Authenticator) request(r *http.Request) (Identity, error) {
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) == 0:
		return Identity{}, missing("a token is required")
	case len(headers) > 1:
		return Identity{}, invalid(resultMalformed, "there is more than one Authorization header", "send one")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Identity{}, missing("the Authorization header is not of the scheme Bearer")
	}
	return a.Verify(r.Context(), strings.TrimLeft(token, " "))
}

// Verify is whom a token identifies. Its error is an envelope.Error for the
// caller, and says nothing of the token's content. It may wait for the
// provider, some seconds at most.
func (a *Authenticator) Verify(ctx context.Context, token string) (Identity, error) {
	if token == "" || len(token) > maxBearer || !visible(token) {
		return Identity{}, invalid(resultMalformed, "the token is empty, too long, or has characters that no token has", hintToken)
	}
	hash := fingerprint(sha256.Sum256([]byte(token)))
	if a.tokens != nil {
		if id, ok := a.tokens.find(hash); ok {
			return id, nil
		}
	}
	// A JWT has three parts.
	if a.issuer != nil && (a.tokens == nil || strings.Count(token, ".") == 2) {
		return a.issuer.verify(ctx, token, hash)
	}
	return Identity{}, invalid(resultUnknown, "the token is not known", "use a token that this service is configured to take")
}

// Require lets only callers with a scope pass. It goes behind
// [Authenticator.Authenticate]; without that nobody passes.
func Require(scope Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := Permit(w, r, scope); err != nil {
				envelope.Fail(w, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Permit is [Require] for a handler that learns from the request which scope it
// needs. Its error is an envelope.Error to answer with, and the answer's headers
// are set.
func Permit(w http.ResponseWriter, r *http.Request, scope Scope) error {
	c, _ := r.Context().Value(contextKey{}).(caller)
	if c.Scopes.Has(scope) {
		return nil
	}
	refused := lacks(scope)
	c.metrics.request(refused.result)
	refused.challenge(w)
	return refused
}
