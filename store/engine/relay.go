package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// A line longer than this is cut: what an engine prints at such length is a
// statement or a stack, and its beginning says which.
const relayLineBytes = 8 << 10

// relayTailLines are kept to be shown when the child dies.
const relayTailLines = 8

// relay passes what a child prints on to the log, line by line, and keeps the
// last lines for error messages. A file of its own would need rotation, could not
// be seen where only the standard output is collected, and would be one more
// thing to own.
type relay struct {
	log   *slog.Logger
	parse func(line string) record

	mu   sync.Mutex
	part []byte
	tail []string
}

// record is one line of a child, understood.
type record struct {
	level slog.Level
	msg   string
	attrs []slog.Attr
}

func newRelay(log *slog.Logger, parse func(string) record) *relay {
	return &relay{log: log, parse: parse}
}

// Write takes the child's output. It never reports an error: that would break
// the child's pipe.
func (r *relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(b)
	for {
		line, rest, found := bytes.Cut(b, []byte{'\n'})
		if room := relayLineBytes - len(r.part); len(line) > room {
			line = line[:room]
		}
		r.part = append(r.part, line...)
		if !found {
			return n, nil
		}
		r.emit()
		b = rest
	}
}

// flush passes on a last line that has no end.
func (r *relay) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.emit()
}

func (r *relay) emit() {
	line := strings.TrimSpace(strings.ToValidUTF8(string(r.part), "\uFFFD"))
	r.part = r.part[:0]
	if line == "" {
		return
	}
	if len(r.tail) == relayTailLines {
		r.tail = slices.Delete(r.tail, 0, 1)
	}
	r.tail = append(r.tail, line)
	rec := r.parse(line)
	r.log.LogAttrs(context.Background(), rec.level, rec.msg, rec.attrs...) //nolint:sloglint // the message is the engine's
}

// last returns the last lines as one.
func (r *relay) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.tail, " | ")
}

// parsePostgres reads a line of Postgres's stderr under an empty
// log_line_prefix. What concerns one statement goes to the client that sent it,
// so here it is of interest to debugging only; a unique violation, for one, is
// how the service finds that a row exists.
func parsePostgres(line string) record {
	severity, msg, found := strings.Cut(line, ":  ")
	if !found {
		return record{level: slog.LevelInfo, msg: line}
	}
	switch severity {
	case "FATAL": // ends one connection, not the server
		if strings.HasPrefix(msg, "the database system is ") || strings.HasPrefix(msg, "terminating connection") {
			return record{level: slog.LevelDebug, msg: msg} // a start or a stop, as ordered
		}
		return record{level: slog.LevelWarn, msg: msg}
	case "WARNING":
		return record{level: slog.LevelWarn, msg: msg}
	case "PANIC":
		return record{level: slog.LevelError, msg: msg}
	case "LOG", "ERROR", "STATEMENT", "HINT", "DETAIL", "CONTEXT", "QUERY":
		return record{level: slog.LevelDebug, msg: msg}
	default:
		return record{level: slog.LevelInfo, msg: line}
	}
}

// parseJSON reads a line of our own child's slog output, and takes anything else
// (the engine's own prints) as text.
func parseJSON(line string) record {
	var fields map[string]any
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &fields) != nil {
		return record{level: slog.LevelInfo, msg: line}
	}
	msg, ok := fields[slog.MessageKey].(string)
	if !ok {
		return record{level: slog.LevelInfo, msg: line}
	}
	rec := record{level: slog.LevelInfo, msg: msg}
	if text, ok := fields[slog.LevelKey].(string); ok {
		_ = rec.level.UnmarshalText([]byte(text)) // stays Info when it is no level
	}
	for key, value := range fields {
		switch key {
		case slog.MessageKey, slog.LevelKey, slog.TimeKey, "component":
		default:
			rec.attrs = append(rec.attrs, slog.Any(key, value))
		}
	}
	slices.SortFunc(rec.attrs, func(a, b slog.Attr) int { return strings.Compare(a.Key, b.Key) })
	return rec
}

// parseInitdb keeps initdb's report of its progress out of the way; what goes
// wrong is in the error.
func parseInitdb(line string) record { return record{level: slog.LevelDebug, msg: line} }
