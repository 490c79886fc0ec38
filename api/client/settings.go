package client

import (
	"cmp"
	"strings"
)

// Settings are what a person or a pod says about the ledger to call: flags or
// environment variables.
type Settings struct {
	URL       string // default: [DefaultURL]
	TokenFile string
	Token     Secret
	// OIDC asks for tokens if it has a client id; an issuer alone says nothing.
	OIDC OIDCConfig
}

// Environment reads the settings from environment variables, of which getenv
// returns one, or "":
//
//	TATARA_LEDGER_URL, else TATARA_CHAT_URL
//	TATARA_LEDGER_TOKEN_FILE
//	TATARA_LEDGER_TOKEN
//	TATARA_LEDGER_OIDC_ISSUER
//	TATARA_LEDGER_OIDC_CLIENT_ID
//	TATARA_LEDGER_OIDC_CLIENT_SECRET_FILE, else TATARA_LEDGER_OIDC_CLIENT_SECRET
//	TATARA_LEDGER_OIDC_AUDIENCE
//	TATARA_LEDGER_OIDC_SCOPES, separated by commas or spaces
func Environment(getenv func(string) string) Settings {
	const prefix = "TATARA_LEDGER_"
	s := Settings{
		URL:       cmp.Or(getenv(prefix+"URL"), getenv("TATARA_CHAT_URL")),
		TokenFile: getenv(prefix + "TOKEN_FILE"),
		Token:     Secret(getenv(prefix + "TOKEN")),
		OIDC: OIDCConfig{
			Issuer:           getenv(prefix + "OIDC_ISSUER"),
			ClientID:         getenv(prefix + "OIDC_CLIENT_ID"),
			ClientSecret:     Secret(getenv(prefix + "OIDC_CLIENT_SECRET")),
			ClientSecretFile: getenv(prefix + "OIDC_CLIENT_SECRET_FILE"),
			Audience:         getenv(prefix + "OIDC_AUDIENCE"),
			Scopes:           strings.FieldsFunc(getenv(prefix+"OIDC_SCOPES"), func(r rune) bool { return r == ',' || r == ' ' }),
		},
	}
	return s
}

// TokenSource is that of the settings: the file, else the token, else OIDC,
// else nil, which sends none.
func (s Settings) TokenSource() (TokenSource, error) {
	switch {
	case s.TokenFile != "":
		return TokenFile(s.TokenFile), nil
	case s.Token != "":
		return StaticToken(s.Token), nil
	case s.OIDC.ClientID != "":
		oidc := s.OIDC
		if oidc.ClientSecretFile != "" {
			oidc.ClientSecret = ""
		}
		return OIDC(oidc)
	}
	return nil, nil
}

// Config is the configuration of a client with these settings.
func (s Settings) Config() (Config, error) {
	token, err := s.TokenSource()
	return Config{BaseURL: s.URL, Token: token}, err
}
