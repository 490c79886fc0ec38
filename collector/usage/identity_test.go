package usage

import (
	"strings"
	"testing"
)

func TestHashSeparatesItsParts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000) // more than the buffer on the stack
	seen := map[ID][]string{}
	for _, parts := range [][]string{
		nil,
		{""},
		{"", ""},
		{"ab"},
		{"a", "b"},
		{"b", "a"},
		{"", "ab"},
		{"ab", ""},
		{"a\x01b"},
		{"\x02ab"},
		{long},
		{long[:1000], long[1000:]},
		{long[:127]},
		{long[:128]}, // the length takes two bytes from here on
	} {
		id := Hash(parts...)
		if twin, ok := seen[id]; ok {
			t.Errorf("%q and %q are one", twin, parts)
		}
		seen[id] = parts
	}
}

// TestHashIsStable: identities are stored, so they may not change with the code.
func TestHashIsStable(t *testing.T) {
	t.Parallel()
	// The first 16 bytes of SHA-256 of "\x03run\x011".
	if got, want := Hash("run", "1").String(), "b2ded8c420709bc200464aa836f260a4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzHash: two lists have one identity only if they are equal.
func FuzzHash(f *testing.F) {
	f.Add("a", "b", "ab", "")
	f.Add("\x01", "", "", "\x01")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if equal := a == c && b == d; (Hash(a, b) == Hash(c, d)) != equal {
			t.Errorf("%q and %q", []string{a, b}, []string{c, d})
		}
		if Hash(a, b) == Hash(a+b) {
			t.Errorf("%q and its concatenation", []string{a, b})
		}
	})
}
