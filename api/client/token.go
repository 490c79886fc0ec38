package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// TokenSource has bearer tokens. It is safe for concurrent use.
type TokenSource interface {
	// Token returns a token. rejected is one that the service refused, or empty:
	// a source that can get another returns that, one that cannot returns the
	// same again. An error is an [ErrUnavailable] if it may pass.
	Token(ctx context.Context, rejected string) (string, error)
}

// Secret is a string that does not print.
type Secret string

const hidden = "(secret)"

// String hides the secret.
func (Secret) String() string { return hidden }

// GoString hides the secret.
func (Secret) GoString() string { return hidden }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// StaticToken is a source of one token.
func StaticToken(token Secret) TokenSource {
	return staticToken{Secret(strings.TrimSpace(string(token)))}
}

// staticToken embeds the secret, and with it the methods that hide it.
type staticToken struct{ Secret }

func (s staticToken) Token(context.Context, string) (string, error) { return string(s.Secret), nil }

// TokenFile is a source of the token that a file holds. It reads the file for
// each request, so a token that is replaced there is used at once; a file that
// is away or empty for the moment of its replacement does not matter.
func TokenFile(path string) TokenSource { return &tokenFile{path: path} }

type tokenFile struct {
	path string
	mu   sync.Mutex
	last Secret
}

func (f *tokenFile) String() string   { return "token file " + f.path }
func (f *tokenFile) GoString() string { return f.String() }

func (f *tokenFile) Token(_ context.Context, rejected string) (string, error) {
	token, err := readSecret(f.path)
	if err == nil && strings.ContainsFunc(token, notOfToken) {
		err = fmt.Errorf("reading a token: %s holds something else: want one token and nothing more", f.path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.last = Secret(token)
	} else if f.last == "" || string(f.last) == rejected {
		return "", err
	}
	return string(f.last), nil
}

// notOfToken: what no token has in it, and no header may.
func notOfToken(r rune) bool { return r <= ' ' || r > '~' }

// maxSecretBytes is more than any token or secret has: a wrong file, such as a
// device, is not read to its end.
const maxSecretBytes = 64 << 10

// readSecret reads a file without the white space around its content.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretBytes))
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("reading a secret: %w: %s", errEmptySecret, path)
	}
	return token, nil
}

var errEmptySecret = errors.New("the file is empty")
