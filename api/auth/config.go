package auth

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"
)

// Config says whom to believe. Start from DefaultConfig; with neither Issuer
// nor TokensFile there is no authentication.
type Config struct {
	// Issuer is the URL of an OpenID Connect provider, equal to the iss claim
	// of its tokens, trailing slash included. Default empty: no such tokens.
	Issuer string
	// Audiences are the values of which a token's aud must hold one. Default
	// tatara-chat, which the tokens of existing agents carry.
	Audiences []string
	// ClockSkew is how far the provider's clock may be from ours: how long a
	// token lives on after exp, and how early it is taken before nbf and iat.
	// Default 60 s, 0 to 10 minutes. Too low: fresh tokens are refused; too
	// high: expired ones are not.
	ClockSkew time.Duration
	// CAFile holds PEM certificates to trust besides the system's when the
	// provider is called. Default empty: the system's alone. It is read once.
	CAFile string
	// ScopesClaim is the claim whose values ScopeMap turns into scopes: its name,
	// or the path to it with dots, such as realm_access.roles. Its value is an
	// array, or a string separated by spaces. Default empty: every token has
	// DefaultScopes.
	ScopesClaim string
	// ScopeMap are the scopes that each value of ScopesClaim grants. Values that
	// are not in it grant nothing.
	ScopeMap map[string]Scopes
	// DefaultScopes are the scopes of a token to which ScopesClaim grants
	// nothing, be it absent or without a mapped value. Default read, ingest and
	// write, since the tokens of existing agents carry no scopes. Empty: such a
	// token may do nothing.
	DefaultScopes Scopes
	// TokensFile holds static tokens, see [Authenticator]. Default empty: none.
	// It is read again when it changes.
	TokensFile string
	// RunPerMinute is how many requests each run (caller and X-Request-Id) may
	// make in a minute. Default 1200; 0: any number. Too low: an agent that
	// polls is refused. Requests without X-Request-Id are of no run.
	RunPerMinute int
	// SubjectPerMinute is the same for each caller, who may be a whole fleet.
	// Default 60000; 0: any number, and then RunPerMinute must be 0 too, since
	// this bounds how many runs are remembered.
	SubjectPerMinute int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Audiences:        []string{"tatara-chat"},
		ClockSkew:        time.Minute,
		DefaultScopes:    ScopesOf(Read, Ingest, Write),
		RunPerMinute:     1200,
		SubjectPerMinute: 60000,
	}
}

// Enabled reports whether callers must show a token.
func (c *Config) Enabled() bool { return c.Issuer != "" || c.TokensFile != "" }

// Flags adds the flags of the configuration; c's values are their defaults.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Issuer, "oidc-issuer", c.Issuer, "`URL` of the OpenID Connect provider whose tokens are taken, as in their iss")
	f.StringSliceVar(&c.Audiences, "oidc-audience", c.Audiences, "`audience` of which a token must carry one; repeatable")
	f.DurationVar(&c.ClockSkew, "oidc-clock-skew", c.ClockSkew, "how far the provider's clock may be off")
	f.StringVar(&c.CAFile, "oidc-ca-file", c.CAFile, "PEM `file` of authorities to trust for the provider, besides the system's")
	f.StringVar(&c.ScopesClaim, "oidc-scopes-claim", c.ScopesClaim, "`claim` that grants scopes, such as realm_access.roles")
	f.Var((*scopeMap)(&c.ScopeMap), "oidc-scope", "scope that a value of the claim grants, such as ledger-admins=admin; repeatable")
	f.TextVar(&c.DefaultScopes, "oidc-default-scopes", c.DefaultScopes, "`scopes` of a token to which the claim grants none; empty: such a token may do nothing")
	f.StringVar(&c.TokensFile, "tokens-file", c.TokensFile, "YAML `file` of static tokens: a list of name, token or sha256, and scopes")
	f.IntVar(&c.RunPerMinute, "rate-limit-run", c.RunPerMinute, "`requests` a minute of each run (X-Request-Id); 0: any number")
	f.IntVar(&c.SubjectPerMinute, "rate-limit-subject", c.SubjectPerMinute, "`requests` a minute of each subject, which all runs may share; 0: any number")
}

// maxClockSkew is beyond what a machine with any time service is off.
const maxClockSkew = 10 * time.Minute

// Validate reports every mistake at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Issuer != "" {
		u, err := url.Parse(c.Issuer)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			bad("--oidc-issuer must be an http or https URL without user, query and fragment")
		}
		if len(c.Audiences) == 0 {
			bad("--oidc-audience is empty: every token of the provider, for whatever service, would be taken")
		}
	}
	for _, a := range c.Audiences {
		if a == "" {
			bad("--oidc-audience has an empty value")
		}
	}
	if c.ClockSkew < 0 || c.ClockSkew > maxClockSkew {
		bad("--oidc-clock-skew must be between 0 and %s", maxClockSkew)
	}
	if (c.ScopesClaim == "") != (len(c.ScopeMap) == 0) {
		bad("--oidc-scopes-claim and --oidc-scope need each other")
	}
	if c.RunPerMinute < 0 || c.SubjectPerMinute < 0 {
		bad("--rate-limit-run and --rate-limit-subject must not be negative")
	}
	if c.RunPerMinute > 0 && c.SubjectPerMinute == 0 {
		bad("--rate-limit-run needs --rate-limit-subject, which bounds how many runs are remembered; set both to 0 for no limits")
	}
	return errors.Join(errs...)
}
