package auth

import "context"

// Identity is who calls. The zero value is nobody, with no scopes.
type Identity struct {
	// Subject identifies the caller: the sub claim, or "token:" and the name of
	// a static token. All agents of a fleet may share one.
	Subject string
	// Name is for people, as in created_by: the claim preferred_username, else
	// azp, else sub; or the name of a static token.
	Name string
	// Scopes are what the caller may do.
	Scopes Scopes
}

// Local is every caller where no authentication is configured.
func Local() Identity {
	return Identity{Subject: "local", Name: "local", Scopes: AllScopes()}
}

type contextKey struct{}

type caller struct {
	Identity
	metrics *metrics // nil: nothing is counted
}

// From is who makes the request of ctx. Where [Authenticator.Authenticate] did
// not run it is nobody.
func From(ctx context.Context) Identity {
	c, _ := ctx.Value(contextKey{}).(caller)
	return c.Identity
}

// With is ctx as a request of id, for tests of handlers.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, caller{Identity: id})
}
