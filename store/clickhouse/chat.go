package clickhouse

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/store"
)

// AppendChatEvents stores what happened to handoffs and rooms. Storing the
// same event again changes nothing, and no event is refused for its values:
// what a column cannot hold is stored as the nearest value that it can, and
// bytes that are no UTF-8 are stored as they are. Some events may be stored
// when it fails.
func (s *Store) AppendChatEvents(ctx context.Context, events []store.Event) error {
	return insertBlocks(ctx, s, "chat_facts", chatColumns(time.Now()), events, func(e *store.Event) time.Time { return eventTime(e.At) })
}

func chatColumns(arrived time.Time) []column[store.Event] {
	type e = store.Event
	return []column[e]{
		each("id", func(r *e) uuid.UUID { return r.ID }),
		each("time", func(r *e) time.Time { return eventTime(r.At) }),
		constant[e]("arrived", arrived.UTC()),
		each("action", func(r *e) string { return string(r.Action) }),
		each("actor", func(r *e) string { return r.Actor }),
		each("request_id", func(r *e) string { return r.RequestID }),
		each("project", func(r *e) string { return r.Project }),
		each("repo", func(r *e) string { return r.Repo }),
		each("kind", func(r *e) string { return r.Kind }),
		each("handoff_key", func(r *e) string { return r.Key }),
		each("revision", func(r *e) uint64 { return atLeastZero(r.Revision) }),
		each("age_ms", func(r *e) uint64 { return atLeastZero(r.Age.Milliseconds()) }),
		each("room_id", func(r *e) *uuid.UUID { return nullable(r.RoomID) }),
		each("participant_id", func(r *e) *uuid.UUID { return nullable(r.ParticipantID) }),
		each("message_id", func(r *e) uint64 { return atLeastZero(r.MessageID) }),
		each("direct", func(r *e) bool { return r.Direct }),
		each("bytes", func(r *e) uint64 { return atLeastZero(r.Bytes) }),
	}
}

// eventTime is t within what DateTime64(6) and the months of partitions hold.
func eventTime(t time.Time) time.Time {
	first, last := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2261, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t.UTC()
}

// atLeastZero is n, or 0 for what two clocks that differ may make of an age.
func atLeastZero(n int64) uint64 { return uint64(max(n, 0)) }

func nullable(id uuid.NullUUID) *uuid.UUID {
	if !id.Valid {
		return nil
	}
	return &id.UUID
}
