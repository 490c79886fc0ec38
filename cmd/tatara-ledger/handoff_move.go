package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func newHandoffExportCommand(f *clientFlags) *cobra.Command {
	var q client.HandoffQuery
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all handoffs as JSON lines",
		Long: `Write every handoff as one JSON object per line, as the API answers them. What
is written to meanwhile is exported once, in its older or its newer state.
Earlier revisions are not exported.

If the export does not reach its end the exit code is 1, and the lines so far are
whole.`,
		Example: `  tatara-ledger handoff export >handoffs.ndjson
  tatara-ledger handoff export --project demo --url http://old:8080 |
      tatara-ledger handoff import - --url http://new:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.call(cmd.Context(), func(c *client.Client) error {
				return exportHandoffs(cmd.Context(), c, q, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	cmd.Flags().StringVar(&q.Project, "project", "", "only of this `project`")
	return cmd
}

func exportHandoffs(ctx context.Context, c *client.Client, q client.HandoffQuery, w, stderr io.Writer) (err error) {
	bar := bar{what: "exporting", w: stderr}
	bar.start(-1)
	defer bar.finish()
	out := bufio.NewWriter(w)
	defer func() {
		if e := out.Flush(); err == nil && e != nil {
			err = fmt.Errorf("writing the export: %w", e)
		}
	}()
	n := 0
	for h, err := range c.AllHandoffs(ctx, q) {
		if err != nil {
			return fmt.Errorf("exporting, after %d handoffs: %w", n, err)
		}
		if err := writeLine(out, h); err != nil {
			return fmt.Errorf("writing the export: %w", err)
		}
		n++
		bar.step()
	}
	return nil
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

func newHandoffImportCommand(f *clientFlags) *cobra.Command {
	var i handoffImport
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Write handoffs from JSON lines",
		Long: `Write the handoffs of a file of "handoff export", or of standard input (-): one
JSON object per line with handoff_key, project, body, and optionally repo, kind
and updated_at. Other fields are passed over.

What is there already and the same is left alone, so an import can be repeated.
What differs is replaced if the line is the newer one by its updated_at;
otherwise it is skipped, unless --overwrite is given. Nothing that is written
meanwhile is overwritten unseen.

The service itself says who wrote a row and when: created_by, updated_by and the
times are those of the import. So a handoff that changed at its source between
an export and its import is taken for older by a later import, and skipped.

The first line that cannot be imported ends it, with exit code 1; what came
before it is imported.`,
		Example: `  tatara-ledger handoff import handoffs.ndjson
  tatara-ledger handoff import - --overwrite <handoffs.ndjson`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("opening the import: %w", err)
				}
				defer file.Close()
				in = file
			}
			return f.call(cmd.Context(), func(c *client.Client) error {
				i.client, i.bar = c, bar{what: "importing", w: cmd.ErrOrStderr()}
				err := i.run(cmd.Context(), in)
				i.bar.finish()
				if _, e := fmt.Fprintln(cmd.OutOrStdout(), i.summary()); err == nil {
					err = e
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&i.overwrite, "overwrite", false, "replace what is newer than its line, too")
	return cmd
}

type handoffImport struct {
	overwrite bool
	client    *client.Client
	bar       bar

	created, updated, unchanged int
	skipped                     []string // keys of the first few
	skips                       int
}

// handoffLine is what an import reads of a line.
type handoffLine struct {
	wire.HandoffWrite
	UpdatedAt time.Time `json:"updated_at"`
}

func (i *handoffImport) summary() string {
	text := fmt.Sprintf("%d created, %d updated, %d unchanged, %d skipped", i.created, i.updated, i.unchanged, i.skips)
	if i.skips > 0 {
		text += ": newer at the target (--overwrite replaces them): " + strings.Join(i.skipped, ", ")
		if i.skips > len(i.skipped) {
			text += fmt.Sprintf(" and %d more", i.skips-len(i.skipped))
		}
	}
	return text
}

// maxLineBytes is more than the longest body that a service can be told to
// keep (256 KiB) takes when every byte is escaped.
const maxLineBytes = 2 << 20

func (i *handoffImport) run(ctx context.Context, in io.Reader) error {
	i.bar.start(-1)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		h, err := readHandoffLine(line)
		if err == nil {
			err = i.one(ctx, h)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		i.bar.step()
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading line %d: %w", n+1, err)
	}
	return nil
}

func readHandoffLine(line []byte) (handoffLine, error) {
	var h handoffLine
	if err := json.Unmarshal(line, &h); err != nil {
		var wrong *json.SemanticError
		if errors.As(err, &wrong) && wrong.JSONPointer != "" {
			text := "is a JSON " + wrong.JSONKind.String() + ", which it must not be"
			if wrong.Err != nil {
				text = wrong.Err.Error()
			}
			return h, envelope.BadField(strings.TrimPrefix(string(wrong.JSONPointer), "/"), text, "")
		}
		return h, fmt.Errorf("is no JSON object: %w", err)
	}
	for _, f := range []struct{ name, value string }{
		{"handoff_key", h.HandoffKey}, {"project", h.Project}, {"body", strings.TrimSpace(h.Body)},
	} {
		if f.value == "" {
			return h, envelope.BadField(f.name, "is missing or empty", "")
		}
	}
	return h, nil
}

// importAttempts is how often somebody else may write a key while it is
// imported.
const importAttempts = 5

// one imports one handoff. It is written only over what was compared with it.
// It tries to create first: reading counts as somebody's interest in a handoff.
func (i *handoffImport) one(ctx context.Context, h handoffLine) error {
	var err error
	for range importAttempts {
		if _, err = i.client.PutHandoff(ctx, h.HandoffWrite, client.Precondition{IfAbsent: true}); err == nil {
			i.created++
			return nil
		}
		if !errors.Is(err, client.ErrPrecondition) {
			return err
		}
		var done bool
		if done, err = i.update(ctx, h); done {
			return err
		}
	}
	return err
}

// update imports over what is there. If that goes or changes meanwhile, it is
// not done.
func (i *handoffImport) update(ctx context.Context, h handoffLine) (done bool, err error) {
	there, err := i.client.Handoff(ctx, h.HandoffKey)
	switch {
	case err != nil:
		return !errors.Is(err, client.ErrNotFound), err
	case same(there, &h.HandoffWrite):
		i.unchanged++
		return true, nil
	case !i.overwrite && !h.UpdatedAt.After(there.UpdatedAt):
		i.skip(h.HandoffKey)
		return true, nil
	}
	_, err = i.client.PutHandoff(ctx, h.HandoffWrite, client.Precondition{IfMatch: there.ETag})
	if err == nil {
		i.updated++
	}
	return !errors.Is(err, client.ErrPrecondition), err
}

func same(there *wire.Handoff, h *wire.HandoffWrite) bool {
	return there.Project == h.Project && there.Repo == h.Repo && there.Kind == h.Kind && there.Body == h.Body
}

func (i *handoffImport) skip(key string) {
	const named = 20
	i.skips++
	if len(i.skipped) < named {
		i.skipped = append(i.skipped, oneLine(key))
	}
}
