package engine

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

const redacted = "[redacted]"

// Secret is a password that prints as [redacted], whatever prints it. The value
// sits behind a pointer because fmt skips the methods of unexported fields and
// would show a plain string. The zero value is the empty secret.
type Secret struct{ value *string }

// NewSecret wraps value.
func NewSecret(value string) Secret { return Secret{value: &value} }

// Reveal returns the value, for the one place that needs it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// String returns a placeholder.
func (Secret) String() string { return redacted }

// Format prints a placeholder for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue logs a placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText encodes a placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Equal compares values.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// secretFile reads the secret at path, creating a random one when there is none.
// The file is readable by its owner only, and that is the account (or the caller,
// when account is nil).
func secretFile(path string, owner *account) (Secret, error) {
	secret, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = createSecret(path)
	}
	if err != nil {
		return Secret{}, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return Secret{}, fmt.Errorf("closing the password file to others: %w", err)
	}
	if err := owner.chown(path); err != nil {
		return Secret{}, err
	}
	return secret, nil
}

func readSecret(path string) (Secret, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, fmt.Errorf("reading a password: %w", err)
	}
	value := strings.TrimSpace(string(raw))
	if value == "" {
		return Secret{}, fmt.Errorf("reading a password: %s is empty", path)
	}
	return NewSecret(value), nil
}

// createSecret writes beside path and renames, so that a crash leaves no empty
// password behind.
func createSecret(path string) (Secret, error) {
	// 24 bytes are 192 bits: beyond guessing, and 32 characters without padding.
	random := make([]byte, 24)
	_, _ = rand.Read(random) // never fails: see crypto/rand
	value := base64.RawURLEncoding.EncodeToString(random)
	if err := writeFile(path, []byte(value+"\n"), 0o600); err != nil {
		return Secret{}, fmt.Errorf("writing a password: %w", err)
	}
	return NewSecret(value), nil
}

// writeFile replaces path as a whole, durably.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone already unless a step below did not succeed
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
