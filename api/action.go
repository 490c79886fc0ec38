package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/store"
)

// note is what the log says of a business action; never a body.
type note struct {
	room, participant uuid.UUID
	key, project      string
	task              string
	count             int // of rows that were changed or returned
	replayed          bool
}

// replayedBy takes over what the store said about an Idempotency-Key, and tells
// the client.
func (n *note) replayedBy(w http.ResponseWriter, once *store.Once) bool {
	if once != nil && once.Replayed {
		n.replayed = true
		w.Header().Set(replayedHeader, "true")
	}
	return n.replayed
}

// action adapts a handler that is a business action: a success is logged, one
// line each.
func (s *server) action(name string, level slog.Level, h func(http.ResponseWriter, *http.Request, *note) error) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		start := time.Now()
		var n note
		if err := h(w, r, &n); err != nil {
			return err
		}
		if !s.log.Enabled(r.Context(), level) {
			return nil
		}
		s.log.LogAttrs(r.Context(), level, "business action", n.attrs(name, w.Header().Get(envelope.RequestIDHeader), start)...)
		return nil
	})
}

func (n *note) attrs(action, requestID string, start time.Time) []slog.Attr {
	out := append(make([]slog.Attr, 0, 9), slog.String("action", action), slog.String("request_id", requestID))
	if n.room != uuid.Nil {
		out = append(out, slog.String("room_id", n.room.String()))
	}
	if n.participant != uuid.Nil {
		out = append(out, slog.String("participant_id", n.participant.String()))
	}
	if n.key != "" {
		out = append(out, slog.String("handoff_key", n.key))
	}
	if n.task != "" {
		out = append(out, slog.String("task", n.task))
	}
	if n.project != "" {
		out = append(out, slog.String("project", n.project))
	}
	if n.replayed {
		out = append(out, slog.Bool("replayed", true))
	}
	return append(out, slog.Int("count", n.count), slog.Float64("duration_ms", float64(time.Since(start).Microseconds())/1000))
}

// chatMetrics count what was done, not what was asked: replays and repeats that
// change nothing are left out. The names are those of the service that this one
// replaces.
type chatMetrics struct {
	rooms, participants, messages, handoffs *prometheus.CounterVec
	polls                                   prometheus.Counter
}

func newChatMetrics(reg prometheus.Registerer) *chatMetrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return registered(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	m := &chatMetrics{
		rooms:        vec("chat_rooms_total", "Rooms, by what became of them: created, archived, ttl_archived.", "op"),
		participants: vec("chat_participants_total", "Participants that joined or left.", "op"),
		messages:     vec("chat_messages_total", "Messages, by kind (message, system, other) and scope (global, dm).", "kind", "scope"),
		handoffs:     vec("chat_handoffs_total", "Handoffs, by operation: write, read, list, delete, restore.", "op"),
		polls: registered(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chat_polls_total", Help: "Polls that were answered.",
		})),
	}
	// A series that comes with its first event hides that event from rate().
	for vec, ops := range map[*prometheus.CounterVec][]string{
		m.rooms:        {"created", "archived", "ttl_archived"},
		m.participants: {"join", "leave"},
		m.handoffs:     {"write", "read", "list", "delete", "restore"},
	} {
		for _, op := range ops {
			vec.WithLabelValues(op)
		}
	}
	for _, kind := range []string{defaultKind, store.KindSystem, "other"} {
		m.messages.WithLabelValues(kind, "global")
		if kind != store.KindSystem {
			m.messages.WithLabelValues(kind, "dm")
		}
	}
	return m
}

func (m *chatMetrics) sent(v *store.Message) {
	kind, scope := "other", "global"
	if v.Kind == defaultKind || v.Kind == store.KindSystem {
		kind = v.Kind
	}
	if v.TargetID.Valid {
		scope = "dm"
	}
	m.messages.WithLabelValues(kind, scope).Inc()
}
