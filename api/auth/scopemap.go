package auth

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// scopeMap is the flag of [Config.ScopeMap]: value=scope, several separated by
// commas. A value with a comma in it is quoted, and the last = separates, since
// groups of a directory are called cn=admins,ou=groups.
type scopeMap map[string]Scopes

func (m *scopeMap) Set(text string) error {
	r := csv.NewReader(strings.NewReader(text))
	pairs, err := r.Read()
	if err != nil {
		return fmt.Errorf("%q is no list of value=scope", text)
	}
	for _, pair := range pairs {
		i := strings.LastIndexByte(pair, '=')
		if i < 1 {
			return fmt.Errorf("%q is not value=scope", pair)
		}
		scopes, err := ParseScopes(pair[i+1:])
		if err != nil {
			return err
		}
		if scopes == 0 {
			return fmt.Errorf("%q names no scope", pair)
		}
		if *m == nil {
			*m = scopeMap{}
		}
		(*m)[pair[:i]] |= scopes
	}
	return nil
}

func (m *scopeMap) Type() string { return "value=scope" }

func (m *scopeMap) String() string {
	var pairs []string
	for _, value := range slices.Sorted(maps.Keys(*m)) {
		for _, s := range (*m)[value].List() {
			pairs = append(pairs, value+"="+string(s))
		}
	}
	if len(pairs) == 0 {
		return ""
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(pairs) // a Builder takes everything
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}
