package auth

import (
	"context"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// algorithms are the signatures that are taken: by private keys alone, since a
// verifier must not be able to sign.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512,
	jose.ES256, jose.ES384, jose.ES512,
	jose.PS256, jose.PS384, jose.PS512,
	jose.EdDSA,
}

// verifier verifies tokens of the provider.
type verifier struct {
	expected jwt.Expected
	skew     time.Duration
	scopes   claimScopes
	keys     *keySource
	cache    *cache
	now      func() time.Time
}

// verify is the identity that a token proves, or a *refusal.
func (v *verifier) verify(ctx context.Context, text string, hash fingerprint) (Identity, error) {
	if set := v.keys.set.Load(); set != nil {
		if id, ok := v.cache.find(hash, set.digest, v.now()); ok {
			return id, nil
		}
	}
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil {
		return Identity{}, unreadable(err)
	}
	// What the token says of itself is looked at first: an expired or foreign
	// one needs no keys, and so no provider. It is believed only below.
	var claims claims
	if err := token.UnsafeClaimsWithoutVerification(claims.into()...); err != nil {
		return Identity{}, invalid(resultMalformed, "the token's claims cannot be read", hintToken)
	}
	if err := v.check(&claims); err != nil {
		return Identity{}, err
	}
	set, err := v.authentic(ctx, token, &claims)
	if err != nil {
		return Identity{}, err
	}
	if err := v.check(&claims); err != nil {
		return Identity{}, err
	}
	id := Identity{Subject: claims.Subject, Name: claims.name(), Scopes: v.scopes.of(claims.all)}
	now := v.now()
	until := now.Add(cacheFor)
	if expiry := claims.Expiry.Time().Add(v.skew); expiry.Before(until) {
		until = expiry
	}
	v.cache.add(hash, verified{id: id, until: until, keys: set.digest})
	return id, nil
}

// authentic reads the claims of a token that a key of the provider signed, and
// says which set the key is of.
func (v *verifier) authentic(ctx context.Context, token *jwt.JSONWebToken, out *claims) (*keySet, error) {
	set, err := v.keys.current(ctx)
	if err != nil {
		return nil, unavailable()
	}
	kid, alg := token.Headers[0].KeyID, token.Headers[0].Algorithm
	candidates := set.candidates(kid, alg)
	if signedByAny(token, candidates, out) {
		return set, nil
	}
	// A key that is known and did not sign the token will not have done so
	// after another fetch.
	if kid == "" || len(candidates) == 0 {
		if set, err = v.keys.after(ctx, set); err != nil {
			return nil, unavailable()
		}
		if signedByAny(token, set.candidates(kid, alg), out) {
			return set, nil
		}
	}
	return nil, invalid(resultSignature, "the token is not signed by a key of the configured issuer", hintToken)
}

func signedByAny(token *jwt.JSONWebToken, keys []jose.JSONWebKey, out *claims) bool {
	for i := range keys {
		*out = claims{}
		if token.Claims(&keys[i], out.into()...) == nil {
			return true
		}
	}
	return false
}

const hintToken = "ask the configured identity provider for a token"

func unreadable(err error) *refusal {
	var alg *jose.ErrUnexpectedSignatureAlgorithm
	if errors.As(err, &alg) {
		return invalid(resultAlgorithm, "the token is not signed with an accepted algorithm",
			"tokens must be signed with a private key: RS, PS or ES with 256, 384 or 512 bits, or EdDSA")
	}
	return invalid(resultMalformed, "the token is no signed JWT", hintToken)
}

// check is everything about a token but its signature.
func (v *verifier) check(c *claims) error {
	err := c.ValidateWithLeeway(v.expected.WithTime(v.now()), v.skew)
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return invalid(resultIssuer, "the token is of another issuer", hintToken)
	case errors.Is(err, jwt.ErrInvalidAudience):
		return invalid(resultAudience, "the token is for another audience", "ask for a token of the audience "+v.expected.AnyAudience[0])
	case errors.Is(err, jwt.ErrExpired):
		return invalid(resultExpired, "the token is expired", "ask for a new token")
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return invalid(resultNotYet, "the token is not valid yet", "compare the clocks of the identity provider and of this service")
	case err != nil:
		return invalid(resultMalformed, "the token's claims are not valid", hintToken)
	case c.Expiry == nil:
		return invalid(resultMalformed, "the token has no expiry", hintToken)
	case c.Subject == "":
		return invalid(resultSubject, "the token has no subject", "have the identity provider put sub into access tokens")
	}
	return nil
}
