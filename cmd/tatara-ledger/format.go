package main

import (
	"fmt"
	"slices"
	"strings"
)

// badFormat is the error of a --format that a command does not have, which is
// bad usage; nil for one that it has.
func badFormat(format string, known ...string) error {
	if slices.Contains(known, format) {
		return nil
	}
	list := strings.Join(known[:len(known)-1], ", ") + " or " + known[len(known)-1]
	return &exitError{2, fmt.Errorf("unknown --format %q: want %s", format, list)}
}
