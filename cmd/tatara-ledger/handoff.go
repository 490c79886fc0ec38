package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
)

// newHandoffCommand reads and writes the handoffs of a service.
func newHandoffCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "handoff",
		Short: "Read, write, compare and move handoffs",
		Long: `A handoff is one compact Markdown note under a continuation key: what the next
agent needs to go on. These commands call a running service.

A bearer token comes from --token-file, else TATARA_LEDGER_TOKEN, else from an
OpenID Connect provider. Secrets are no flags.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.add(cmd.PersistentFlags())
	cmd.AddCommand(
		newHandoffGetCommand(&f), newHandoffPutCommand(&f), newHandoffListCommand(&f), newHandoffDeleteCommand(&f),
		newHandoffRevisionsCommand(&f), newHandoffRestoreCommand(&f), newHandoffDiffCommand(&f),
		newHandoffExportCommand(&f), newHandoffImportCommand(&f),
	)
	return cmd
}

func newHandoffGetCommand(f *clientFlags) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Print a handoff",
		Long: `Print the body of a handoff as it is, or with --format json the whole row.
The exit code is 1 if there is none.`,
		Example: `  tatara-ledger handoff get acme/widgets#7
  tatara-ledger handoff get acme/widgets#7 --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := badFormat(format, "text", "json"); err != nil {
				return err
			}
			return f.call(cmd.Context(), func(c *client.Client) error {
				h, err := c.Handoff(cmd.Context(), args[0])
				if err != nil {
					return noHandoff(err, args[0])
				}
				return writeHandoff(cmd.OutOrStdout(), h, format)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "output format: text (the body) or json")
	return cmd
}

// noHandoff says where a deleted handoff may still be.
func noHandoff(err error, key string) error {
	if !errors.Is(err, client.ErrNotFound) {
		return err
	}
	return fmt.Errorf("no handoff under %q: %w; if it was deleted, see: tatara-ledger handoff revisions KEY", key, err)
}

func writeHandoff(w io.Writer, h *wire.Handoff, format string) error {
	if format == "json" {
		return writeJSON(w, h)
	}
	body := h.Body
	if isTerminal(w) && !strings.HasSuffix(body, "\n") {
		body += "\n" // for the prompt that follows; a file gets the very body
	}
	_, err := io.WriteString(w, body)
	return err
}

type handoffPut struct {
	write  wire.HandoffWrite
	file   string
	demand client.Precondition
	format string
}

func newHandoffPutCommand(f *clientFlags) *cobra.Command {
	var p handoffPut
	cmd := &cobra.Command{
		Use:   "put KEY --project PROJECT",
		Short: "Write a handoff",
		Long: `Create or replace a handoff: body, project, repository and kind. What is not
given is empty afterwards. The body is read from standard input or --file.

With --if-absent nothing is replaced; with --if-match only the revision of that
tag, as "get --format json" shows it, so that two writers cannot overwrite each
other.`,
		Example: `  tatara-ledger handoff put acme/widgets#7 --project demo --repo acme/widgets --kind implement <note.md
  tatara-ledger handoff put acme/widgets#7 --project demo --file note.md --if-match '"3"'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.write.HandoffKey = args[0]
			if err := p.validate(); err != nil {
				return err
			}
			var err error
			if p.write.Body, err = readBody(p.file, cmd.InOrStdin()); err != nil {
				return err
			}
			return f.call(cmd.Context(), func(c *client.Client) error { return p.run(cmd.Context(), c, cmd.OutOrStdout()) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&p.write.Project, "project", "", "`project` (required)")
	fl.StringVar(&p.write.Repo, "repo", "", "`repository`")
	fl.StringVar(&p.write.Kind, "kind", "", "`kind` of work")
	fl.StringVar(&p.file, "file", "-", "`file` with the body; - is standard input")
	fl.StringVar(&p.demand.IfMatch, "if-match", "", "replace only the revision with this `tag`; *: any, but create none")
	fl.BoolVar(&p.demand.IfAbsent, "if-absent", false, "create only")
	fl.StringVar(&p.format, "format", "text", "output format: text or json (the row)")
	return cmd
}

func (p *handoffPut) validate() error {
	if err := badFormat(p.format, "text", "json"); err != nil {
		return err
	}
	if p.write.Project == "" {
		return &exitError{2, errors.New("--project is required")}
	}
	if p.demand.IfAbsent && p.demand.IfMatch != "" {
		return &exitError{2, errors.New("--if-absent and --if-match exclude each other")}
	}
	p.demand.IfMatch = quoteTag(p.demand.IfMatch)
	return nil
}

func (p *handoffPut) run(ctx context.Context, c *client.Client, w io.Writer) error {
	h, err := c.PutHandoff(ctx, p.write, p.demand)
	if err != nil {
		return demanded(err, p.demand)
	}
	return writeWritten(w, h, p.format)
}

// demanded says what a precondition that failed means.
func demanded(err error, p client.Precondition) error {
	switch {
	case !errors.Is(err, client.ErrPrecondition):
		return err
	case p.IfAbsent:
		return fmt.Errorf("there is a handoff under this key already: %w", err)
	}
	return fmt.Errorf("the handoff was written by somebody else meanwhile, or is gone: %w; read it again", err)
}

// quoteTag gives a tag the quotes that shells eat.
func quoteTag(tag string) string {
	if tag == "" || tag == "*" || strings.HasPrefix(tag, `"`) || strings.HasPrefix(tag, "W/") {
		return tag
	}
	return `"` + tag + `"`
}

func writeWritten(w io.Writer, h *wire.Handoff, format string) error {
	if format == "json" {
		return writeJSON(w, h)
	}
	_, err := fmt.Fprintf(w, "%s: revision %d, tag %s\n", oneLine(h.HandoffKey), h.Revision, h.ETag)
	return err
}

// maxBodyBytes is far more than a service takes, which says itself what is too
// much for it.
const maxBodyBytes = 16 << 20

func readBody(file string, stdin io.Reader) (string, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("opening the body: %w", err)
		}
		defer f.Close()
		stdin = f
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxBodyBytes+1))
	if err != nil {
		return "", fmt.Errorf("reading the body: %w", err)
	}
	if len(text) > maxBodyBytes {
		return "", fmt.Errorf("reading the body: it is over %d bytes", maxBodyBytes)
	}
	return string(text), nil
}

type handoffList struct {
	query     client.HandoffQuery
	olderThan string
	before    string
	limit     int
	format    string
}

func newHandoffListCommand(f *clientFlags) *cobra.Command {
	var l handoffList
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List handoffs, newest first",
		Example: `  tatara-ledger handoff list --project demo
  tatara-ledger handoff list --project demo --repo acme/widgets --q 'flaky test' --format json
  tatara-ledger handoff list --older-than 14d --limit 0 --format csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.validate(time.Now()); err != nil {
				return err
			}
			return f.call(cmd.Context(), func(c *client.Client) error {
				return l.run(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&l.query.Project, "project", "", "only of this `project`")
	fl.StringVar(&l.query.Repo, "repo", "", "only of this `repository`")
	fl.StringVar(&l.query.Kind, "kind", "", "only of this `kind` of work")
	fl.StringVar(&l.query.Text, "q", "", "only bodies that this full-text `query` finds")
	fl.StringVar(&l.olderThan, "older-than", "", "only without an update for this long, such as 36h or 14d")
	fl.StringVar(&l.before, "updated-before", "", "only without an update since this `time` (2026-11-30 or RFC 3339)")
	fl.IntVar(&l.limit, "limit", 50, "how many at most; 0: all")
	fl.StringVar(&l.format, "format", "table", "output format: table, json or csv")
	return cmd
}

func (l *handoffList) validate(now time.Time) error {
	if err := badFormat(l.format, "table", "json", "csv"); err != nil {
		return err
	}
	if l.limit < 0 {
		return &exitError{2, errors.New("--limit must not be negative")}
	}
	switch {
	case l.olderThan != "" && l.before != "":
		return &exitError{2, errors.New("--older-than and --updated-before exclude each other")}
	case l.olderThan != "":
		age, err := parseAge("--older-than", l.olderThan)
		if err != nil {
			return &exitError{2, err}
		}
		l.query.UpdatedBefore = now.Add(-age)
	case l.before != "":
		at, err := pricing.ParseTime(l.before)
		if err != nil {
			return &exitError{2, fmt.Errorf("--updated-before %q: want 2026-11-30 or an RFC 3339 time", l.before)}
		}
		l.query.UpdatedBefore = at
	}
	return nil
}

func (l *handoffList) run(ctx context.Context, c *client.Client, w, stderr io.Writer) error {
	const page = 100 // so as not to ask for more than is shown
	l.query.Limit = page
	if l.limit > 0 {
		l.query.Limit = min(page, l.limit+1)
	}
	var list []wire.Handoff
	more := false
	for h, err := range c.AllHandoffs(ctx, l.query) {
		if err != nil {
			return err
		}
		if more = l.limit > 0 && len(list) == l.limit; more {
			break
		}
		list = append(list, h)
	}
	if err := handoffListing(list).write(w, l.format); err != nil {
		return err
	}
	if more {
		note(stderr, moreThan(l.limit))
	}
	return nil
}

func handoffListing(list []wire.Handoff) *listing[wire.Handoff] {
	return &listing[wire.Handoff]{
		things: list,
		header: []string{"key", "project", "repo", "kind", "revision", "bytes", "updated (UTC)", "by"},
		right:  []bool{4: true, 5: true, 7: false},
		cells: func(h wire.Handoff) []string {
			return []string{h.HandoffKey, h.Project, h.Repo, h.Kind, strconv.FormatInt(h.Revision, 10), strconv.Itoa(len(h.Body)), stamp(h.UpdatedAt), h.UpdatedBy}
		},
		fields: []string{"handoff_key", "project", "repo", "kind", "revision", "etag", "bytes", "created_by", "updated_by", "created_at", "updated_at"},
		values: func(h wire.Handoff) []string {
			return []string{
				h.HandoffKey, h.Project, h.Repo, h.Kind, strconv.FormatInt(h.Revision, 10), h.ETag, strconv.Itoa(len(h.Body)),
				h.CreatedBy, h.UpdatedBy, h.CreatedAt.Format(time.RFC3339Nano), h.UpdatedAt.Format(time.RFC3339Nano),
			}
		},
	}
}

func newHandoffDeleteCommand(f *clientFlags) *cobra.Command {
	var demand client.Precondition
	cmd := &cobra.Command{
		Use:   "delete KEY",
		Short: "Delete a handoff",
		Long: `Delete a handoff. One that does not exist is deleted already. Its last revisions
are kept for a while: see "handoff revisions" and "handoff restore".`,
		Example: `  tatara-ledger handoff delete acme/widgets#7`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			demand.IfMatch = quoteTag(demand.IfMatch)
			return f.call(cmd.Context(), func(c *client.Client) error {
				if err := c.DeleteHandoff(cmd.Context(), args[0], demand); err != nil {
					return demanded(err, demand)
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: deleted\n", oneLine(args[0]))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&demand.IfMatch, "if-match", "", "delete only the revision with this `tag`")
	return cmd
}
