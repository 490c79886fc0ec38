package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is one right of a caller. None implies another.
type Scope string

// The scopes.
const (
	Read   Scope = "read"   // queries, rooms and handoffs
	Ingest Scope = "ingest" // telemetry, run links, outcomes and annotations
	Write  Scope = "write"  // rooms, messages and handoffs, their deletion included
	Admin  Scope = "admin"  // ceilings, ending a task, prices, deletion from the ledger
)

var scopes = [...]Scope{Read, Ingest, Write, Admin}

// Scopes is a set of scopes. The zero value is empty.
type Scopes uint8

// ScopesOf is the set of the given scopes. One that does not exist grants
// nothing.
func ScopesOf(list ...Scope) Scopes {
	var set Scopes
	for _, s := range list {
		if i := slices.Index(scopes[:], s); i >= 0 {
			set |= 1 << i
		}
	}
	return set
}

// AllScopes is the set of all.
func AllScopes() Scopes { return ScopesOf(scopes[:]...) }

// ParseScopes reads names separated by commas or spaces. No names are the
// empty set.
func ParseScopes(text string) (Scopes, error) {
	var set Scopes
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		one := ScopesOf(Scope(name))
		if one == 0 {
			return 0, fmt.Errorf("%q is no scope: there are %s", name, AllScopes())
		}
		set |= one
	}
	return set, nil
}

// Has reports whether s is in the set.
func (set Scopes) Has(s Scope) bool { return set&ScopesOf(s) != 0 }

// List is the set in the order of the constants.
func (set Scopes) List() []Scope {
	list := make([]Scope, 0, len(scopes))
	for _, s := range scopes {
		if set.Has(s) {
			list = append(list, s)
		}
	}
	return list
}

// String is the form that [ParseScopes] reads.
func (set Scopes) String() string {
	names := make([]string, 0, len(scopes))
	for _, s := range set.List() {
		names = append(names, string(s))
	}
	return strings.Join(names, ",")
}

// MarshalText is String, for flags.
func (set Scopes) MarshalText() ([]byte, error) { return []byte(set.String()), nil }

// UnmarshalText is [ParseScopes], for flags.
func (set *Scopes) UnmarshalText(text []byte) error {
	parsed, err := ParseScopes(string(text))
	if err != nil {
		return err
	}
	*set = parsed
	return nil
}
