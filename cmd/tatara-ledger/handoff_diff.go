package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func newHandoffRevisionsCommand(f *clientFlags) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "revisions KEY",
		Short: "List the states that a handoff had",
		Long: `List the kept revisions of a handoff, newest first, of a deleted one too. The
bodies are in --format json.`,
		Example: `  tatara-ledger handoff revisions acme/widgets#7`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := badFormat(format, "table", "json", "csv"); err != nil {
				return err
			}
			return f.call(cmd.Context(), func(c *client.Client) error {
				list, err := c.Revisions(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return revisionListing(list).write(cmd.OutOrStdout(), format)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "output format: table, json or csv")
	return cmd
}

func revisionListing(list []wire.Revision) *listing[wire.Revision] {
	restored := func(r wire.Revision) string {
		if r.Restored == 0 {
			return ""
		}
		return strconv.FormatInt(r.Restored, 10)
	}
	return &listing[wire.Revision]{
		things: list,
		header: []string{"revision", "written (UTC)", "by", "project", "repo", "kind", "bytes", "copy of"},
		right:  []bool{0: true, 6: true, 7: true},
		cells: func(r wire.Revision) []string {
			return []string{strconv.FormatInt(r.Revision, 10), stamp(r.WrittenAt), r.WrittenBy, r.Project, r.Repo, r.Kind, strconv.Itoa(len(r.Body)), restored(r)}
		},
		fields: []string{"revision", "written_at", "written_by", "project", "repo", "kind", "bytes", "restored", "request_id"},
		values: func(r wire.Revision) []string {
			return []string{
				strconv.FormatInt(r.Revision, 10), r.WrittenAt.Format(time.RFC3339Nano), r.WrittenBy, r.Project, r.Repo, r.Kind,
				strconv.Itoa(len(r.Body)), restored(r), r.RequestID,
			}
		},
	}
}

func newHandoffRestoreCommand(f *clientFlags) *cobra.Command {
	var revision int64
	var format string
	var demand client.Precondition
	cmd := &cobra.Command{
		Use:     "restore KEY --revision N",
		Short:   "Write an earlier revision again",
		Long:    `Write an earlier revision of a handoff again, as a new one; after a delete too.`,
		Example: `  tatara-ledger handoff restore acme/widgets#7 --revision 3`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := badFormat(format, "text", "json"); err != nil {
				return err
			}
			if revision < 1 {
				return &exitError{2, errors.New("--revision is required: one that handoff revisions lists")}
			}
			demand.IfMatch = quoteTag(demand.IfMatch)
			return f.call(cmd.Context(), func(c *client.Client) error {
				h, err := c.Restore(cmd.Context(), args[0], revision, demand)
				if err != nil {
					return demanded(err, demand)
				}
				return writeWritten(cmd.OutOrStdout(), h, format)
			})
		},
	}
	fl := cmd.Flags()
	fl.Int64Var(&revision, "revision", 0, "`number` of the revision (required)")
	fl.StringVar(&demand.IfMatch, "if-match", "", "replace only the revision with this `tag`")
	fl.StringVar(&format, "format", "text", "output format: text or json (the row)")
	return cmd
}

func newHandoffDiffCommand(f *clientFlags) *cobra.Command {
	var from, to int64
	cmd := &cobra.Command{
		Use:   "diff KEY",
		Short: "Show what changed between two revisions",
		Long: `Show the difference between the bodies of two revisions as a unified diff, and
above it the labels that differ. Without --from and --to: what the last write
changed. Prints nothing if nothing differs.`,
		Example: `  tatara-ledger handoff diff acme/widgets#7
  tatara-ledger handoff diff acme/widgets#7 --from 2 --to 5`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from < 0 || to < 0 {
				return &exitError{2, errors.New("--from and --to are numbers of revisions, from 1")}
			}
			return f.call(cmd.Context(), func(c *client.Client) error {
				return handoffDiff(cmd.Context(), c, cmd.OutOrStdout(), args[0], from, to)
			})
		},
	}
	cmd.Flags().Int64Var(&from, "from", 0, "older `revision` (default: the one before --to)")
	cmd.Flags().Int64Var(&to, "to", 0, "newer `revision` (default: the last)")
	return cmd
}

func handoffDiff(ctx context.Context, c *client.Client, w io.Writer, key string, from, to int64) error {
	list, err := c.Revisions(ctx, key)
	if err != nil {
		return err
	}
	older, newer, err := pickRevisions(list, from, to)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, revisionDiff(key, older, newer))
	return err
}

// pickRevisions finds two revisions in a list, newest first.
func pickRevisions(list []wire.Revision, from, to int64) (older, newer wire.Revision, err error) {
	slices.SortFunc(list, func(a, b wire.Revision) int { return cmp.Compare(b.Revision, a.Revision) })
	if len(list) == 0 {
		return older, newer, errors.New("no revision is kept under this key")
	}
	at := func(n int64) (int, error) {
		i := slices.IndexFunc(list, func(r wire.Revision) bool { return r.Revision == n })
		if i < 0 {
			return 0, fmt.Errorf("revision %d is not kept: there are %d to %d", n, list[len(list)-1].Revision, list[0].Revision)
		}
		return i, nil
	}
	i := 0
	if to != 0 {
		if i, err = at(to); err != nil {
			return older, newer, err
		}
	}
	j := i + 1
	if from != 0 {
		j, err = at(from)
	} else if j == len(list) {
		err = fmt.Errorf("nothing is kept from before revision %d", list[i].Revision)
	}
	if err != nil {
		return older, newer, err
	}
	return list[j], list[i], nil
}

func revisionDiff(key string, a, b wire.Revision) string {
	var out strings.Builder
	for _, label := range []struct{ name, from, to string }{
		{"project", a.Project, b.Project}, {"repo", a.Repo, b.Repo}, {"kind", a.Kind, b.Kind},
	} {
		if label.from != label.to {
			fmt.Fprintf(&out, "%s: %q -> %q\n", label.name, label.from, label.to)
		}
	}
	name := func(r wire.Revision) string {
		return fmt.Sprintf("%s@%d\t%s", oneLine(key), r.Revision, r.WrittenAt.UTC().Format(time.RFC3339))
	}
	out.WriteString(udiff.Unified(name(a), name(b), a.Body, b.Body))
	return out.String()
}
