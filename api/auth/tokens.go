package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

const (
	// minToken is the length that a static token must have: 16 characters of a
	// random one are 96 bits.
	minToken = 16
	// maxName bounds names, which end in created_by.
	maxName = 128
)

// entry is one static token in the file.
type entry struct {
	Name   string   `yaml:"name"`
	Token  string   `yaml:"token"`
	SHA256 string   `yaml:"sha256"`
	Scopes []string `yaml:"scopes"`
}

// tokenSet are the static tokens by their hash. Looking a hash up takes a time
// that tells nothing about the tokens.
type tokenSet map[fingerprint]Identity

// parseTokens reads the file of static tokens. Its errors name lines and names
// of tokens, never what else the file says. An empty file is an error, since a
// file that is being written is empty for a moment; no tokens are [].
func parseTokens(text []byte) (tokenSet, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var entries []entry
	if err := decoder.Decode(&entries); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty: no tokens are written []")
		}
		return nil, unreadableYAML(err)
	}
	if entries == nil {
		return nil, errors.New("the file has no list: no tokens are written []")
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one document")
	}
	set := tokenSet{}
	var names []string
	for i, e := range entries {
		hash, id, err := e.read()
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", i+1, err)
		}
		if _, twice := set[hash]; twice {
			return nil, fmt.Errorf("token %d (%s): the same token is there twice", i+1, e.Name)
		}
		if slices.Contains(names, e.Name) {
			return nil, fmt.Errorf("token %d: the name %s is there twice", i+1, e.Name)
		}
		names = append(names, e.Name)
		set[hash] = id
	}
	return set, nil
}

func (e *entry) read() (fingerprint, Identity, error) {
	var none fingerprint
	if e.Name == "" || len(e.Name) > maxName || !visible(e.Name) {
		return none, Identity{}, fmt.Errorf("it needs a name of 1 to %d visible ASCII characters without spaces", maxName)
	}
	fail := func(format string, args ...any) (fingerprint, Identity, error) {
		return none, Identity{}, fmt.Errorf("(%s) "+format, append([]any{e.Name}, args...)...)
	}
	if (e.Token == "") == (e.SHA256 == "") {
		return fail("it needs either token or sha256")
	}
	hash := fingerprint(sha256.Sum256([]byte(e.Token)))
	switch {
	case e.SHA256 != "":
		digest, err := hex.DecodeString(e.SHA256)
		if err != nil || len(digest) != len(hash) {
			return fail("its sha256 is not 64 hexadecimal digits")
		}
		hash = fingerprint(digest)
	case len(e.Token) < minToken || len(e.Token) > maxBearer:
		return fail("its token must have %d to %d characters", minToken, maxBearer)
	case !visible(e.Token):
		return fail("its token must be visible ASCII characters without spaces")
	}
	var scopes Scopes
	for _, s := range e.Scopes {
		one := ScopesOf(Scope(s))
		if one == 0 {
			return fail("one of its scopes does not exist: there are %s", AllScopes())
		}
		scopes |= one
	}
	if scopes == 0 {
		return fail("it has no scopes: there are %s", AllScopes())
	}
	return hash, Identity{Subject: "token:" + e.Name, Name: e.Name, Scopes: scopes}, nil
}

// unreadableYAML keeps only the line of a decoder's error: the rest quotes the
// file, and so perhaps a token.
func unreadableYAML(err error) error {
	line := regexp.MustCompile(`line \d+`).FindString(err.Error())
	if line == "" {
		line = "the file"
	}
	return fmt.Errorf("%s is no list of name, token or sha256, and scopes", line)
}

// visible reports whether s could be sent as a bearer token.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
