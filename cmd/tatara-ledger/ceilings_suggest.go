package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

type ceilingsSuggest struct {
	ceilingFlags
	since  string
	kind   string
	format string
	at     string
}

func newCeilingsSuggestCommand() *cobra.Command {
	var f ceilingsSuggest
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Suggest ceilings from what tasks have cost",
		Long: `Show per kind what tasks have cost, in dollars, tokens and runs, whole and in
their dearest hour: the median, the 95th and the 99th percentile and the most;
and how many of these tasks a ceiling there would have stopped, and how many the
configured ceilings would have.

A task counts if it spent within --since, with all that it ever spent. Percentiles
are values that occur: that many percent of the tasks spent no more. Tasks of
which no dollar is known count for tokens only. Configured ceilings by model are
left out, for a task may use many models.

--format yaml prints ceilings by kind, just over --at in two digits, to be pasted
into the file of ceilings; those of runs it leaves out. With few tasks they mean
little.`,
		Example: `  tatara-ledger ceilings suggest --since 30d
  tatara-ledger ceilings suggest --since 90d --kind implement --ceilings ceilings.yaml --format json
  tatara-ledger ceilings suggest --at max --format yaml --clickhouse ch:8123 --clickhouse-password-file pw`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.since, "since", "30d", "how far back, such as 24h or 30d")
	fl.StringVar(&f.kind, "kind", "", "only tasks of this `kind`")
	fl.StringVar(&f.format, "format", "table", "output format: table, json or yaml")
	fl.StringVar(&f.at, "at", candidateP99, "which ceilings yaml prints: p95, p99 or max")
	f.add(cmd)
	return cmd
}

func (f *ceilingsSuggest) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := badFormat(f.format, "table", "json", "yaml"); err != nil {
		return err
	}
	if f.at != candidateP95 && f.at != candidateP99 && f.at != candidateMax {
		return &exitError{2, fmt.Errorf("unknown --at %q: want %s, %s or %s", f.at, candidateP95, candidateP99, candidateMax)}
	}
	age, err := parseAge("--since", f.since)
	if err != nil {
		return &exitError{2, err}
	}
	configured, err := ceiling.LoadFile(f.file)
	if err != nil {
		return err
	}
	since := time.Now().UTC().Add(-age).Truncate(time.Second)
	var costs []clickhouse.TaskCost
	err = f.withLedger(ctx, stderr, func(s *clickhouse.Store) (err error) {
		costs, err = s.TaskCosts(ctx, since)
		return err
	})
	if err != nil {
		return err
	}
	kinds := byKind(costs)
	if f.kind != "" {
		kinds = slices.DeleteFunc(kinds, func(k kindTasks) bool { return k.kind != f.kind })
		if len(kinds) == 0 {
			return fmt.Errorf("no task of kind %q spent since %s UTC", f.kind, stamp(since))
		}
	}
	if f.format == "yaml" {
		return writeCeilings(stdout, kinds, f.at, since)
	}
	s := suggestions{Since: since, Kinds: make([]suggestion, len(kinds))}
	for i, k := range kinds {
		s.Kinds[i] = k.suggest(configured)
	}
	if f.format == "json" {
		return writeJSON(stdout, s)
	}
	return s.writeTable(stdout)
}

// kindTasks are the tasks of one kind.
type kindTasks struct {
	kind  string
	tasks []clickhouse.TaskCost
}

func byKind(costs []clickhouse.TaskCost) []kindTasks {
	tasks := map[string][]clickhouse.TaskCost{}
	for _, t := range costs {
		tasks[t.Kind] = append(tasks[t.Kind], t)
	}
	var kinds []kindTasks
	for _, kind := range slices.Sorted(maps.Keys(tasks)) {
		kinds = append(kinds, kindTasks{kind, tasks[kind]})
	}
	return kinds
}

// suggestions are what the command prints as JSON. Values are exact: dollars,
// tokens or a count, as those of GET /v1/tasks.
type suggestions struct {
	Since time.Time    `json:"since"`
	Kinds []suggestion `json:"kinds"`
}

type suggestion struct {
	Kind           string            `json:"kind"`
	Tasks          int               `json:"tasks"`
	UnpricedTokens uint64            `json:"unpriced_tokens"` // which the dollars lack
	Limits         []limitSuggestion `json:"limits"`
}

// limitSuggestion is about one limit, named as in the file.
type limitSuggestion struct {
	Limit string `json:"limit"`
	Tasks int    `json:"tasks"` // whose value is known
	P50   string `json:"p50"`
	// Candidates are p95, p99, max and configured.
	Candidates []candidate `json:"candidates"`
}

type candidate struct {
	Name    string  `json:"name"`
	Value   *string `json:"value"`   // null: no limit, or not one for all of the kind
	Stopped int     `json:"stopped"` // tasks that reached it
}

const (
	candidateP95        = "p95"
	candidateP99        = "p99"
	candidateMax        = "max"
	candidateConfigured = "configured"
)

func (s *suggestions) writeTable(w io.Writer) error {
	if len(s.Kinds) == 0 {
		_, err := fmt.Fprintf(w, "No task spent since %s UTC.\n", stamp(s.Since))
		return err
	}
	type row struct {
		kind  string
		limit limitSuggestion
	}
	l := listing[row]{
		header: []string{"kind", "limit", "tasks", "p50", "p95", "p99", "max", "configured", "stopped by p95", "p99", "max", "configured"},
		right:  []bool{false, false, true, true, true, true, true, true, true, true, true, true},
		cells: func(r row) []string {
			kind := cmp.Or(r.kind, "(none)")
			cells := []string{kind, r.limit.Limit, thousands(uint64(r.limit.Tasks)), forPeople(r.limit.Limit, r.limit.P50)}
			for _, c := range r.limit.Candidates {
				value := "–"
				if c.Value != nil {
					value = forPeople(r.limit.Limit, *c.Value)
				}
				cells = append(cells, value)
			}
			for _, c := range r.limit.Candidates {
				cells = append(cells, thousands(uint64(c.Stopped)))
			}
			return cells
		},
	}
	for _, k := range s.Kinds {
		for _, limit := range k.Limits {
			l.things = append(l.things, row{k.Kind, limit})
		}
	}
	if err := l.table(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "Tasks that spent since %s UTC, with all that they ever spent.\n", stamp(s.Since))
	return err
}

func forPeople(limit, value string) string {
	if money(limit) {
		return "$" + cents(value)
	}
	return whole(value)
}

func money(limit string) bool {
	return slices.ContainsFunc(ceiling.Dimensions(), func(d ceiling.Dimension) bool { return d.String() == limit && d.Money() })
}
