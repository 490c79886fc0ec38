package auth

import (
	"strings"

	"github.com/go-jose/go-jose/v4/jwt"
)

// claims are what a token says.
type claims struct {
	jwt.Claims
	all map[string]any
}

// into is where a token is decoded to.
func (c *claims) into() []any { return []any{&c.Claims, &c.all} }

// name is the first of the claims that name a caller to people.
func (c *claims) name() string {
	for _, claim := range []string{"preferred_username", "azp"} {
		if s, _ := c.all[claim].(string); s != "" {
			return s
		}
	}
	return c.Subject
}

// claimScopes turns claims into scopes.
type claimScopes struct {
	claim    string
	grants   map[string]Scopes
	fallback Scopes
}

func (s *claimScopes) of(all map[string]any) Scopes {
	var set Scopes
	for _, value := range values(all, s.claim) {
		set |= s.grants[value]
	}
	if set == 0 {
		return s.fallback
	}
	return set
}

// values are those of the claim at a path. A claim may have dots in its name,
// as https://example.com/roles does.
func values(all map[string]any, path string) []string {
	for all != nil {
		if claim, ok := all[path]; ok {
			return texts(claim)
		}
		step, rest, deeper := strings.Cut(path, ".")
		if !deeper {
			return nil
		}
		all, _ = all[step].(map[string]any)
		path = rest
	}
	return nil
}

func texts(claim any) []string {
	switch v := claim.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		list := make([]string, 0, len(v))
		for _, e := range v {
			if s, ok := e.(string); ok {
				list = append(list, s)
			}
		}
		return list
	}
	return nil
}
