package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
)

// writeCeilings writes overrides by kind, which [ceiling.Load] reads. What it
// cannot write is said in a comment.
func writeCeilings(w io.Writer, kinds []kindTasks, at string, since time.Time) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# What tasks came to that spent since %s UTC, just over %s in two digits.\n", stamp(since), at)
	entries := 0
	for i := range kinds {
		entry, err := kinds[i].override(at)
		switch {
		case err != nil:
			fmt.Fprintf(&text, "# Left out: %s: %v\n", oneLine(kinds[i].kind), oneLine(err.Error()))
		case entry == "":
			fmt.Fprintf(&text, "# Left out: %d tasks without a kind, which no override selects.\n", len(kinds[i].tasks))
		default:
			if entries++; entries == 1 {
				text.WriteString("overrides:\n")
			}
			text.WriteString(entry)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// override is the entry of a kind, "" if none selects it.
func (k *kindTasks) override(at string) (string, error) {
	if k.kind == "" {
		return "", nil
	}
	name, err := yaml.Marshal(k.kind)
	if err != nil {
		return "", fmt.Errorf("writing its name: %w", err)
	}
	limits := map[ceiling.Dimension]uint64{}
	scopes := map[string][]string{}
	for _, d := range measures() {
		sorted := k.values(d)
		// So few runs are usual that a limit just over them would stop the next
		// task that is interrupted twice.
		if d == ceiling.TaskRuns || len(sorted) == 0 || candidateOf(at, sorted) == 0 {
			continue
		}
		limit := roundUp(candidateOf(at, sorted) + 1) // a limit stops what reaches it
		limits[d] = limit
		_, key, _ := strings.Cut(d.String(), ".")
		scopes[d.Scope()] = append(scopes[d.Scope()], key+": "+exact(d, limit))
	}
	entry := fmt.Sprintf("  # Of the tasks, %d, these limits would have stopped %d.\n  - kind: %s", len(k.tasks), k.stopped(limits), name)
	for _, scope := range []string{"task", "hour"} {
		if len(scopes[scope]) > 0 {
			entry += "    " + scope + ": {" + strings.Join(scopes[scope], ", ") + "}\n"
		}
	}
	// What the ledger has as a kind may be none that a file can name.
	read, err := ceiling.Load("suggestion", strings.NewReader("overrides:\n"+entry))
	if err != nil {
		return "", err
	}
	if named := read.Kinds(); len(named) != 1 || named[0].Name != k.kind {
		return "", fmt.Errorf("a file would read its name as %v", named)
	}
	return entry, nil
}

// stopped counts the tasks that any of the limits stops.
func (k *kindTasks) stopped(limits map[ceiling.Dimension]uint64) int {
	n := 0
	for i := range k.tasks {
		for d, limit := range limits {
			if v, ok := measure(&k.tasks[i], d); ok && stops(limit, v) {
				n++
				break
			}
		}
	}
	return n
}

// roundUp keeps two digits: a ceiling of 12 says no less than one of 11.8364.
func roundUp(v uint64) uint64 {
	unit := uint64(1)
	for v/unit >= 100 {
		unit *= 10
	}
	if rest := v % unit; rest > 0 {
		v += unit - rest
	}
	return v
}
