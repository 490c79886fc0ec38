package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// newChatCommand shows the rooms of a service.
func newChatCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Look into the chat rooms of agents",
		Long: `Look into the rooms in which agents exchange findings. These commands call a
running service, join no room and move nobody's cursor.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.add(cmd.PersistentFlags())
	cmd.AddCommand(newChatRoomsCommand(&f), newChatLogCommand(&f), newChatWatchCommand(&f))
	return cmd
}

func newChatRoomsCommand(f *clientFlags) *cobra.Command {
	var status, format string
	var limit int
	cmd := &cobra.Command{
		Use:   "rooms",
		Short: "List rooms, newest first",
		Example: `  tatara-ledger chat rooms --status active
  tatara-ledger chat rooms --limit 0 --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := badFormat(format, "table", "json", "csv"); err != nil {
				return err
			}
			if status != "" && status != "active" && status != "archived" {
				return &exitError{2, fmt.Errorf("unknown --status %q: want active or archived", status)}
			}
			if limit < 0 {
				return &exitError{2, errors.New("--limit must not be negative")}
			}
			return f.call(cmd.Context(), func(c *client.Client) error {
				rooms, more, err := someRooms(cmd.Context(), c, status, limit)
				if err != nil {
					return err
				}
				if err := roomListing(rooms).write(cmd.OutOrStdout(), format); err != nil {
					return err
				}
				if more {
					note(cmd.ErrOrStderr(), moreThan(limit))
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only rooms of this `status`: active or archived")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many at most; 0: all")
	cmd.Flags().StringVar(&format, "format", "table", "output format: table, json or csv")
	return cmd
}

func someRooms(ctx context.Context, c *client.Client, status string, limit int) (rooms []wire.Room, more bool, err error) {
	for r, err := range c.AllRooms(ctx, client.RoomQuery{Status: status}) {
		if err != nil {
			return nil, false, err
		}
		if limit > 0 && len(rooms) == limit {
			return rooms, true, nil
		}
		rooms = append(rooms, r)
	}
	return rooms, false, nil
}

func roomListing(rooms []wire.Room) *listing[wire.Room] {
	return &listing[wire.Room]{
		things: rooms,
		header: []string{"id", "name", "status", "created (UTC)", "by"},
		cells: func(r wire.Room) []string {
			return []string{r.ID, r.Name, r.Status, stamp(r.CreatedAt), r.CreatedBy}
		},
		fields: []string{"id", "name", "status", "created_by", "created_at", "archived_at"},
		values: func(r wire.Room) []string {
			archived := ""
			if r.ArchivedAt != nil {
				archived = r.ArchivedAt.Format(time.RFC3339Nano)
			}
			return []string{r.ID, r.Name, r.Status, r.CreatedBy, r.CreatedAt.Format(time.RFC3339Nano), archived}
		},
	}
}

func newChatLogCommand(f *clientFlags) *cobra.Command {
	var after int64
	var format string
	cmd := &cobra.Command{
		Use:   "log ROOM",
		Short: "Print the messages of a room",
		Long: `Print every message of a room, by its id. JSON is one object per line. Control
characters in a text do not reach the terminal; JSON has them escaped.`,
		Example: `  tatara-ledger chat log 0192f3c1-7d2e-7c55-9d6e-2f6f0d3a5b11
  tatara-ledger chat log 0192f3c1-7d2e-7c55-9d6e-2f6f0d3a5b11 --after 120 --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := badFormat(format, "text", "json"); err != nil {
				return err
			}
			return f.call(cmd.Context(), func(c *client.Client) error {
				p, err := newMessagePrinter(cmd.Context(), c, args[0], cmd.OutOrStdout(), format)
				if err != nil {
					return err
				}
				for m, err := range c.AllLog(cmd.Context(), args[0], after) {
					if err != nil {
						return err
					}
					if err := p.print(cmd.Context(), m); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "only messages after this `id`")
	cmd.Flags().StringVar(&format, "format", "text", "output format: text or json")
	return cmd
}

// messagePrinter prints messages of one room.
type messagePrinter struct {
	client *client.Client
	room   string
	w      io.Writer
	json   bool
	names  map[string]string // of participants, by id
}

// newMessagePrinter fails if there is no such room.
func newMessagePrinter(ctx context.Context, c *client.Client, room string, w io.Writer, format string) (*messagePrinter, error) {
	p := &messagePrinter{client: c, room: room, w: w, json: format == "json"}
	return p, p.learn(ctx)
}

func (p *messagePrinter) learn(ctx context.Context) error {
	r, err := p.client.Room(ctx, p.room)
	if err != nil {
		return err
	}
	p.names = map[string]string{}
	for _, m := range r.Participants {
		p.names[m.ID] = m.Name
	}
	return nil
}

func (p *messagePrinter) print(ctx context.Context, m wire.Message) error {
	if p.json {
		return writeLine(p.w, m)
	}
	to := ""
	if m.TargetID != nil {
		to = " -> " + p.name(ctx, *m.TargetID)
	}
	kind := ""
	if m.Kind != "message" && m.Kind != "" {
		kind = " (" + m.Kind + ")"
	}
	head := m.CreatedAt.UTC().Format(time.DateTime) + " #" + strconv.FormatInt(m.ID, 10) + " " + m.AuthorName + to + kind
	_, err := fmt.Fprintf(p.w, "%s: %s\n", oneLine(head), indented(m.Body))
	return err
}

// name is that of a participant, who may have joined since we last asked. One
// whose name cannot be learned has its id.
func (p *messagePrinter) name(ctx context.Context, id string) string {
	if _, ok := p.names[id]; !ok && p.learn(ctx) == nil && p.names[id] == "" {
		p.names[id] = id
	}
	if name := p.names[id]; name != "" {
		return name
	}
	return id
}
