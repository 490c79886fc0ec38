package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/szymonrychu/tatara-ledger/api/client"
)

// clientFlags say which service a command calls, and as whom. Their
// environment variables are those of [client.Environment], so secrets, which
// are no flags, come from there. serve has flags of the names --oidc-issuer and
// --oidc-audience too: the issuer whose tokens it takes and the audience that
// they must have, which are what a caller asks for.
type clientFlags struct {
	url              string
	tokenFile        string
	oidcIssuer       string
	oidcClientID     string
	oidcClientSecret string // a file
	oidcAudience     string
	oidcScopes       []string
}

func (f *clientFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "url", "", "`URL` of the service (default: $TATARA_LEDGER_URL, else $TATARA_CHAT_URL, else "+client.DefaultURL+")")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the bearer token (default: $TATARA_LEDGER_TOKEN)")
	flags.StringVar(&f.oidcIssuer, "oidc-issuer", "", "`URL` of the OpenID Connect provider to get a token from, by client credentials")
	flags.StringVar(&f.oidcClientID, "oidc-client-id", "", "client `id` there; without one no token is asked for")
	flags.StringVar(&f.oidcClientSecret, "oidc-client-secret-file", "", "`file` with the client's secret (default: $TATARA_LEDGER_OIDC_CLIENT_SECRET)")
	flags.StringVar(&f.oidcAudience, "oidc-audience", "", "`audience` to ask for, if the provider wants one")
	flags.StringSliceVar(&f.oidcScopes, "oidc-scopes", nil, "`scopes` to ask for")
}

// settings are the flags, and the environment where they say nothing.
func (f *clientFlags) settings() client.Settings {
	s := client.Environment(os.Getenv)
	for _, o := range []struct {
		flag string
		to   *string
	}{
		{f.url, &s.URL},
		{f.tokenFile, &s.TokenFile},
		{f.oidcIssuer, &s.OIDC.Issuer},
		{f.oidcClientID, &s.OIDC.ClientID},
		{f.oidcClientSecret, &s.OIDC.ClientSecretFile},
		{f.oidcAudience, &s.OIDC.Audience},
	} {
		if o.flag != "" {
			*o.to = o.flag
		}
	}
	if len(f.oidcScopes) > 0 {
		s.OIDC.Scopes = f.oidcScopes
	}
	return s
}

func (f *clientFlags) config() (client.Config, error) {
	cfg, err := f.settings().Config()
	cfg.UserAgent = "tatara-ledger/" + version()
	return cfg, err
}

// call makes a client, gives it to do, and adds the remedy to its error.
func (f *clientFlags) call(ctx context.Context, do func(*client.Client) error) error {
	cfg, err := f.config()
	if err != nil {
		return &exitError{2, err}
	}
	c, err := client.NewWithConfig(cfg)
	if err != nil {
		return &exitError{2, err}
	}
	defer c.Close()
	err = do(c)
	if ctx.Err() != nil {
		return err
	}
	return remedy(err)
}

// remedy says what helps against errors that have one.
func remedy(err error) error {
	var unknownHost *net.DNSError
	switch {
	case errors.Is(err, client.ErrToken):
		return fmt.Errorf("%w; see --token-file and the --oidc flags", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w; is tatara-ledger serve running there? Otherwise give --url or TATARA_LEDGER_URL", err)
	case errors.As(err, &unknownHost):
		return fmt.Errorf("%w; is --url right?", err)
	case errors.Is(err, client.ErrUnauthorized):
		return fmt.Errorf("%w; give a token: --token-file, TATARA_LEDGER_TOKEN or the --oidc flags", err)
	}
	return err
}
