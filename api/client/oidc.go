package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"
)

// OIDCConfig asks an OpenID Connect issuer for tokens by client credentials.
type OIDCConfig struct {
	Issuer   string // required; its discovery document names the token endpoint
	ClientID string // required
	// ClientSecret, or ClientSecretFile, which is read for each token. Required.
	ClientSecret     Secret
	ClientSecretFile string
	// Audience is sent as "audience", for issuers that want one; empty: none.
	Audience string
	Scopes   []string
	// HTTP calls the issuer; nil: a client that waits for ten seconds.
	HTTP *http.Client
}

// Validate reports every mistake.
func (c *OIDCConfig) Validate() error {
	var errs []error
	if u, err := url.Parse(c.Issuer); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, errors.New("the OIDC issuer must be a URL, http(s)://host"))
	}
	if c.ClientID == "" {
		errs = append(errs, errors.New("the OIDC client id is missing"))
	}
	if (c.ClientSecret == "") == (c.ClientSecretFile == "") {
		errs = append(errs, errors.New("the OIDC client secret is needed, as a value or as a file"))
	}
	return errors.Join(errs...)
}

// OIDC is a source of tokens from an issuer. A token is used until shortly
// before it expires, or until the service refuses it; callers at the same time
// share one request for the next.
func OIDC(cfg OIDCConfig) (TokenSource, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Timeout: 10 * time.Second}
	}
	s := &oidcSource{
		issuer: cfg.Issuer, file: cfg.ClientSecretFile, secret: cfg.ClientSecret, http: cfg.HTTP,
		grant: clientcredentials.Config{ClientID: cfg.ClientID, Scopes: cfg.Scopes},
	}
	if cfg.Audience != "" {
		s.grant.EndpointParams = url.Values{"audience": {cfg.Audience}}
	}
	return s, nil
}

type oidcSource struct {
	issuer string
	file   string
	secret Secret
	http   *http.Client
	grant  clientcredentials.Config // without the token's URL and the secret
	flight singleflight.Group

	mu       sync.Mutex
	tokenURL string // once discovered
	current  heldToken
}

func (s *oidcSource) String() string   { return "tokens of " + s.issuer }
func (s *oidcSource) GoString() string { return s.String() }

type heldToken struct {
	token   Secret
	renew   time.Time // when to ask for the next; zero: never
	expires time.Time // zero: never
}

// fresh reports whether a token is there to be used on.
func (h *heldToken) fresh(now time.Time, rejected string) bool {
	return h.usable(now, rejected) && (h.renew.IsZero() || now.Before(h.renew))
}

// usable is fresh without the margin: good enough while the issuer is away.
func (h *heldToken) usable(now time.Time, rejected string) bool {
	return h.token != "" && string(h.token) != rejected && (h.expires.IsZero() || now.Before(h.expires))
}

func (s *oidcSource) held() heldToken {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Token implements [TokenSource].
func (s *oidcSource) Token(ctx context.Context, rejected string) (string, error) {
	held := s.held()
	if held.fresh(time.Now(), rejected) {
		return string(held.token), nil
	}
	// Whoever gives up does not take the request away from the others.
	shared := context.WithoutCancel(ctx)
	done := s.flight.DoChan("", func() (any, error) {
		if held := s.held(); held.fresh(time.Now(), rejected) {
			return held, nil // the one before us asked for it
		}
		return s.renew(shared)
	})
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case r := <-done:
		if r.Err == nil {
			return string(r.Val.(heldToken).token), nil
		}
		if held := s.held(); held.usable(time.Now(), rejected) {
			return string(held.token), nil
		}
		return "", r.Err
	}
}

// renewTimeout bounds discovery and grant together.
const renewTimeout = 20 * time.Second

// renew asks for a token. It is called by one goroutine at a time.
func (s *oidcSource) renew(ctx context.Context) (heldToken, error) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	ctx = oidc.ClientContext(ctx, s.http)
	if err := s.discover(ctx); err != nil {
		return heldToken{}, err
	}
	grant := clientcredentials.Config{
		ClientID: s.grant.ClientID, ClientSecret: string(s.secret), TokenURL: s.tokenURL,
		Scopes: s.grant.Scopes, EndpointParams: s.grant.EndpointParams,
	}
	if s.file != "" {
		var err error
		if grant.ClientSecret, err = readSecret(s.file); err != nil {
			return heldToken{}, err
		}
	}
	asked := time.Now()
	token, err := grant.Token(ctx)
	if err != nil {
		return heldToken{}, grantError(s.issuer, err)
	}
	next := heldToken{token: Secret(token.AccessToken), expires: token.Expiry}
	if !token.Expiry.IsZero() {
		next.renew = token.Expiry.Add(-margin(token.Expiry.Sub(asked)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = next
	return next, nil
}

// margin is how long before its end a token is renewed: long enough for the
// longest wait of a request and for clocks that differ, but no more than a
// fifth of a short life.
func margin(life time.Duration) time.Duration { return min(time.Minute, life/5) }

func (s *oidcSource) discover(ctx context.Context) error {
	s.mu.Lock()
	known := s.tokenURL != ""
	s.mu.Unlock()
	if known {
		return nil
	}
	provider, err := oidc.NewProvider(ctx, s.issuer)
	if err != nil {
		return fmt.Errorf("discovering the issuer %s: %w: %s", s.issuer, ErrUnavailable, firstLine(err.Error()))
	}
	at := provider.Endpoint().TokenURL
	if at == "" {
		return fmt.Errorf("the issuer %s names no token endpoint", s.issuer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokenURL = at
	return nil
}

// grantError leaves the issuer's answer out, all but what it says is wrong,
// and tells outages from refusals.
func grantError(issuer string, err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return fmt.Errorf("asking %s for a token: %w: %s", issuer, ErrUnavailable, firstLine(err.Error()))
	}
	said := firstLine(refused.ErrorCode + " " + refused.ErrorDescription)
	err = fmt.Errorf("asking %s for a token: answered %s %s", issuer, refused.Response.Status, said)
	if s := refused.Response.StatusCode; repeatable(s) || s == http.StatusInternalServerError {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
