package clickhouse

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/store"
)

// handoffEvent is an event of a handoff in the project demo.
func handoffEvent(action store.Action, key string, revision int64, offset time.Duration, request string, bytes int64) store.Event {
	return store.Event{
		ID: uuid.New(), At: at(offset), Action: action, Actor: "agent", RequestID: request,
		Project: "demo", Repo: "acme/widgets", Kind: "implement", Key: key, Revision: revision, Bytes: bytes,
	}
}

func appendChat(t testing.TB, s *Store, events ...store.Event) {
	t.Helper()
	if err := s.AppendChatEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// lines are the rows of a query with one column of text.
func lines(t testing.TB, s *Store, sql string) []string {
	t.Helper()
	var out []string
	err := s.query(t.Context(), "lines", sql, nil, func(rows driver.Rows) error {
		var line string
		err := rows.Scan(&line)
		out = append(out, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestChatEventsCountOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := uuid.NullUUID{UUID: uuid.New(), Valid: true}
	var events []store.Event
	for i := range 300 {
		e := handoffEvent(store.HandoffWritten, fmt.Sprint("key/", i%7), int64(i), time.Duration(i)*time.Hour, "run", int64(i))
		if i%3 == 0 {
			e.Key, e.Action, e.RoomID, e.ParticipantID, e.MessageID, e.Direct = "", store.MessageSent, room, room, int64(i), true
		}
		events = append(events, e)
	}
	for range 3 { // whole, and in parts that overlap
		appendChat(t, s, events...)
		appendChat(t, s, events[:170]...)
		appendChat(t, s, events[120:]...)
	}
	const q = `SELECT concat(toString(count()), ' ', toString(uniqExact(id)), ' ', toString(sum(bytes)), ' ',
		toString(countIf(direct)), ' ', toString(uniqExact(room_id))) FROM chat_events`
	if diff := cmp.Diff([]string{fmt.Sprint("300 300 ", 300*299/2, " 100 1")}, lines(t, s, q)); diff != "" {
		t.Error(diff)
	}
}

// No event may stop the queue behind it.
func TestChatEventsOfAnyValue(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	strange := "\x00'\\\"\xff🙂\n"
	appendChat(t, s,
		store.Event{},
		store.Event{
			ID: uuid.New(), At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Action: store.Action(strange), Actor: strange, RequestID: strange,
			Project: strange, Repo: strange, Kind: strange, Key: strange, Revision: math.MaxInt64, Age: math.MaxInt64, MessageID: math.MaxInt64, Bytes: math.MaxInt64,
		},
		store.Event{ID: uuid.New(), At: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), Revision: -1, Age: -time.Hour, MessageID: -1, Bytes: -1},
	)
	var many []store.Event
	for i := range 3 * maxPartitionsPerInsert {
		many = append(many, handoffEvent(store.HandoffWritten, "k", int64(i), time.Duration(-i)*31*24*time.Hour, "", 1))
	}
	appendChat(t, s, many...)
	want := []string{fmt.Sprint(len(many) + 3)}
	if diff := cmp.Diff(want, lines(t, s, "SELECT toString(count()) FROM chat_events")); diff != "" {
		t.Error(diff)
	}
	if got := lines(t, s, `SELECT hex(actor) FROM chat_events WHERE revision > 1000000`); !slices.Equal(got, []string{fmt.Sprintf("%X", strange)}) {
		t.Errorf("kept %v", got)
	}
}

func TestApproximateTokens(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, bytes := range []uint64{0, 1, 3, 4, 5, 8, 1 << 40} {
		got := lines(t, s, fmt.Sprintf("SELECT toString(intDiv(toUInt64(%d) + 3, 4))", bytes))
		if want := fmt.Sprint(ApproximateTokens(bytes)); got[0] != want {
			t.Errorf("%d bytes: the views say %s, Go %s", bytes, got[0], want)
		}
	}
	if got := ApproximateTokens(math.MaxUint64); got != 1<<62 {
		t.Error(got)
	}
}

// Revisions order what clocks and the outbox may not.
func TestHandoffsView(t *testing.T) {
	t.Parallel()
	moved := handoffEvent(store.HandoffRestored, "restored", 4, time.Hour, "run-4", 44)
	moved.Kind, moved.Actor = "review", "operator"
	events := []store.Event{
		handoffEvent(store.HandoffWritten, "open", 1, 0, "run-1", 10),
		handoffEvent(store.HandoffRead, "open", 1, time.Minute, "run-2", 10),
		handoffEvent(store.HandoffRead, "open", 1, 2*time.Minute, "run-2", 10),
		handoffEvent(store.HandoffWritten, "open", 2, -time.Minute, "run-2", 21), // a clock that is behind
		handoffEvent(store.HandoffRead, "open", 2, time.Minute, "run-3", 21),

		handoffEvent(store.HandoffWritten, "unread", 1, 0, "run-1", 0),

		handoffEvent(store.HandoffWritten, "deleted", 1, 0, "run-1", 5),
		handoffEvent(store.HandoffDeleted, "deleted", 1, time.Minute, "groomer", 0),

		handoffEvent(store.HandoffWritten, "counted on", 1, 0, "run-1", 5),
		handoffEvent(store.HandoffDeleted, "counted on", 2, time.Minute, "groomer", 0), // had a delete a revision of its own

		handoffEvent(store.HandoffWritten, "restored", 2, 0, "run-2", 22),
		handoffEvent(store.HandoffDeleted, "restored", 2, time.Minute, "groomer", 0),
		moved,

		handoffEvent(store.HandoffRead, "history unknown", 3, 0, "run-1", 9), // read, but never seen written
	}
	room := handoffEvent(store.MessageSent, "", 0, 0, "run-1", 99)
	room.RoomID = uuid.NullUUID{UUID: uuid.New(), Valid: true}
	events = append(events, room)

	want := []string{
		"counted on demo implement deleted 1 5 2 12:00 agent run-1 0 0 ",
		"deleted demo implement deleted 1 5 2 12:00 agent run-1 0 0 ",
		"open demo implement open 2 21 6 11:59 agent run-2 3 1 12:02",
		"restored demo review open 4 44 11 13:00 operator run-4 0 0 ",
		"unread demo implement open 1 0 0 12:00 agent run-1 0 0 ",
	}
	const q = `SELECT concat(handoff_key, ' ', project, ' ', kind, ' ', state, ' ', toString(revision), ' ', toString(bytes), ' ',
		toString(approximate_tokens), ' ', formatDateTime(updated_at, '%H:%i'), ' ', written_by, ' ', request_id, ' ',
		toString(reads), ' ', toString(reads_since_write), ' ', ifNull(formatDateTime(last_read_at, '%H:%i'), ''))
		FROM handoffs ORDER BY handoff_key`
	for seed := range uint64(4) { // whatever order they come in, each twice, one by one and together
		s := newStore(t)
		order := slices.Concat(events, events)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, e := range order[:5] {
			appendChat(t, s, e)
		}
		appendChat(t, s, order...)
		if diff := cmp.Diff(want, lines(t, s, q)); diff != "" {
			t.Errorf("seed %d:\n%s", seed, diff)
		}
	}
}
