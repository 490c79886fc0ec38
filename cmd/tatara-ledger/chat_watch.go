package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api/client"
)

type chatWatch struct {
	after    int64
	tail     int
	interval time.Duration
	format   string
	room     string
	client   *client.Client
}

func newChatWatchCommand(f *clientFlags) *cobra.Command {
	w := chatWatch{}
	cmd := &cobra.Command{
		Use:   "watch ROOM",
		Short: "Print the messages of a room as they come",
		Long: `Print the last messages of a room, then each as it comes, until Ctrl-C or until
the room is archived; both are exit code 0. It reads the log again every
interval, and goes on through an outage of the service without missing or
repeating a message.`,
		Example: `  tatara-ledger chat watch 0192f3c1-7d2e-7c55-9d6e-2f6f0d3a5b11
  tatara-ledger chat watch 0192f3c1-7d2e-7c55-9d6e-2f6f0d3a5b11 --after 120 --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := badFormat(w.format, "text", "json"); err != nil {
				return err
			}
			if w.tail < -1 {
				return &exitError{2, errors.New("--tail must be -1 or more")}
			}
			if w.interval < 100*time.Millisecond {
				return &exitError{2, errors.New("--interval must be 100ms or more")}
			}
			w.room = args[0]
			return f.call(cmd.Context(), func(c *client.Client) error {
				w.client = c
				err := w.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.Flags().Changed("after"))
				if errors.Is(err, context.Canceled) {
					return nil // a Ctrl-C is how one stops watching
				}
				return err
			})
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&w.tail, "tail", 10, "how many of the messages that are there to print first; -1: all")
	fl.Int64Var(&w.after, "after", 0, "print what comes after this `id`, instead of --tail")
	fl.DurationVar(&w.interval, "interval", time.Second, "how often to look")
	fl.StringVar(&w.format, "format", "text", "output format: text or json (one object per line)")
	return cmd
}

func (w *chatWatch) run(ctx context.Context, out, stderr io.Writer, fromID bool) error {
	p, err := newMessagePrinter(ctx, w.client, w.room, out, w.format)
	if err != nil {
		return err
	}
	if !fromID && w.tail >= 0 {
		if err := w.printTail(ctx, p); err != nil {
			return err
		}
	}
	away := false
	for m, err := range w.client.Follow(ctx, w.room, w.after, w.interval) {
		switch {
		case err == nil:
			if away {
				away = false
				note(stderr, "the service is back")
			}
			if err := p.print(ctx, m); err != nil {
				return err
			}
		case !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrRateLimited):
			return err
		case !away:
			away = true
			note(stderr, "trying on: "+err.Error())
		}
	}
	if ctx.Err() == nil {
		note(stderr, "the room is archived")
	}
	return nil
}

// printTail prints the last messages that are there and moves w.after behind
// them.
func (w *chatWatch) printTail(ctx context.Context, p *messagePrinter) error {
	// At least one tells where the log ends.
	last, err := w.client.LogTail(ctx, w.room, max(1, w.tail))
	if err != nil || len(last) == 0 {
		return err
	}
	w.after = last[len(last)-1].ID
	for _, m := range last[max(0, len(last)-w.tail):] {
		if err := p.print(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// indented is a text whose further lines stand under the first, so that none
// can pass for a message of its own.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimRight(plain(text), "\n"), "\n", "\n    ")
}
