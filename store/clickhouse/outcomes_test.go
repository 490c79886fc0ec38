package clickhouse

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
)

func appendFacts(t testing.TB, s *Store, f usage.Facts) {
	t.Helper()
	if err := s.AppendFacts(t.Context(), 1, &f); err != nil {
		t.Fatal(err)
	}
}

// The same outcome counts once at any distance, and of those under one id the
// first that arrived stands, whatever its time.
func TestOutcomesCountOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var facts usage.Facts
	for i := range 300 {
		o := usage.Outcome{Time: at(time.Duration(i) * 24 * time.Hour), Arrived: at(0), Task: fmt.Sprint("task ", i%7), Outcome: usage.Delivered}
		o.Identify("")
		a := usage.Annotation{Time: o.Time, Arrived: at(0), Text: fmt.Sprint(i), Tags: []string{"b", "a"}}
		a.Identify("")
		facts.Outcomes, facts.Annotations = append(facts.Outcomes, o), append(facts.Annotations, a)
	}
	for range 2 {
		appendFacts(t, s, facts)
		appendFacts(t, s, usage.Facts{Outcomes: facts.Outcomes[100:], Annotations: facts.Annotations[:200]})
	}
	for i, arrived := range []time.Duration{time.Hour, 0, 400 * 24 * time.Hour} {
		o := usage.Outcome{Time: at(-time.Duration(i+1) * 40 * 24 * time.Hour), Arrived: at(arrived), Task: "one", Outcome: fmt.Sprint("outcome ", i)}
		o.Identify("id")
		appendFacts(t, s, usage.Facts{Outcomes: []usage.Outcome{o}})
	}
	for _, q := range []struct{ sql, want string }{
		{`SELECT concat(toString(count()), ' ', toString(uniqExact(id)), ' ', toString(uniqExact(task))) FROM outcomes WHERE task != 'one'`, "300 300 7"},
		{`SELECT concat(outcome, ' ', toString(time), ' ', toString(arrived_at)) FROM outcomes WHERE task = 'one'`, "outcome 1 2026-09-10 12:00:00.000 2026-11-29 12:00:00.000"},
		{`SELECT concat(toString(count()), ' ', toString(uniqExact(text))) FROM annotations WHERE tags = ['b', 'a'] AND time_end IS NULL`, "300 300"},
	} {
		if diff := cmp.Diff([]string{q.want}, lines(t, s, q.sql)); diff != "" {
			t.Errorf("%s:\n%s", q.sql, diff)
		}
	}
}

// Any text comes back as it was.
func TestOutcomesOfAnyValue(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	strange := "\x00'\\\"\xff🙂 <script>\n"
	appendFacts(t, s, usage.Facts{
		Outcomes:    []usage.Outcome{{Time: at(0), Arrived: at(0), Task: strange, Outcome: strange, Detail: strange}},
		Annotations: []usage.Annotation{{Time: at(0), Arrived: at(0), Project: strange, Text: strange, Tags: []string{strange, ""}}},
	})
	for _, sql := range []string{
		`SELECT arrayJoin([task, outcome, detail]) FROM outcomes`,
		`SELECT arrayJoin([project, text, tags[1]]) FROM annotations`,
	} {
		if diff := cmp.Diff([]string{strange, strange, strange}, lines(t, s, sql)); diff != "" {
			t.Errorf("%s:\n%s", sql, diff)
		}
	}
}

// Every time that an alert of a task fired is an annotation: to its end, if that
// has come, and whatever of it was copied first.
func TestAnnotationsOfAlerts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	alert := func(state store.AlertState, threshold int, episode int64, offset time.Duration) store.AlertEvent {
		return store.AlertEvent{ID: uuid.New(), At: at(offset), Alert: store.Alert{
			AlertID:    store.AlertID{Task: "it's", Alert: "TaskCostCeiling", Threshold: threshold},
			TaskLabels: store.TaskLabels{Project: "demo", Kind: "implement"},
			State:      state, Episode: episode, Summary: fmt.Sprint(state, " at ", threshold),
		}}
	}
	for _, e := range []store.AlertEvent{
		alert(store.Resolved, 80, 1, 2*time.Hour), alert(store.Firing, 80, 1, time.Hour),
		alert(store.Firing, 100, 1, 90*time.Minute),
		alert(store.Firing, 80, 2, 3*time.Hour),
		alert(store.Resolved, 50, 1, time.Hour), // its beginning is still in the outbox
	} {
		if err := s.AppendAlertEvents(t.Context(), []store.AlertEvent{e, e}); err != nil {
			t.Fatal(err)
		}
	}
	a := usage.Annotation{Time: at(0), Arrived: at(0), Project: "demo", Text: "release"}
	appendFacts(t, s, usage.Facts{Annotations: []usage.Annotation{a}})
	want := []string{
		"2026-11-29 12:00:00.000000|open|demo||release|",
		"2026-11-29 13:00:00.000000|2026-11-29 14:00:00.000000|demo|it's|firing at 80|alert,TaskCostCeiling,implement",
		"2026-11-29 13:30:00.000000|open|demo|it's|firing at 100|alert,TaskCostCeiling,implement",
		"2026-11-29 15:00:00.000000|open|demo|it's|firing at 80|alert,TaskCostCeiling,implement",
	}
	got := lines(t, s, `SELECT concatWithSeparator('|', toString(time), ifNull(toString(time_end), 'open'), project, task, text, arrayStringConcat(tags, ','))
		FROM annotations WHERE project = 'demo' ORDER BY time`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRooms(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := func(n byte) uuid.NullUUID { return uuid.NullUUID{UUID: uuid.UUID{n}, Valid: true} }
	event := func(room byte, action store.Action, offset time.Duration, change func(*store.Event)) store.Event {
		e := store.Event{ID: uuid.New(), At: at(offset), Action: action, Actor: "agent", RoomID: id(room)}
		if change != nil {
			change(&e)
		}
		return e
	}
	as := func(p byte) func(*store.Event) { return func(e *store.Event) { e.ParticipantID = id(p) } }
	says := func(p byte, bytes int64, direct bool) func(*store.Event) {
		return func(e *store.Event) { e.ParticipantID, e.Bytes, e.Direct = id(p), bytes, direct }
	}
	events := []store.Event{
		event(1, store.RoomCreated, 0, nil),
		event(1, store.ParticipantJoined, time.Minute, as(7)),
		event(1, store.ParticipantJoined, 2*time.Minute, as(8)),
		event(1, store.MessageSent, 3*time.Minute, says(7, 10, false)),
		event(1, store.MessageSent, 4*time.Minute, says(8, 5, true)),
		event(1, store.ParticipantLeft, 5*time.Minute, as(8)),
		event(2, store.RoomCreated, 0, nil),
		event(2, store.RoomExpired, time.Hour, func(e *store.Event) { e.Actor = "system" }),
		handoffEvent(store.HandoffWritten, "key", 1, 0, "run", 100),
		{ID: uuid.New(), At: at(0), Action: store.MessageSent}, // of no room
	}
	appendChat(t, s, events...)
	appendChat(t, s, events...)
	want := []string{
		"01|active|2026-11-29 12:00:00.000000||2026-11-29 12:05:00.000000|2026-11-29 12:04:00.000000|agent|2|1|2|1|15",
		"02|archived|2026-11-29 12:00:00.000000|2026-11-29 13:00:00.000000|2026-11-29 13:00:00.000000||agent|0|0|0|0|0",
	}
	got := lines(t, s, `SELECT concatWithSeparator('|', substring(toString(room_id), 1, 2), state, ifNull(toString(created_at), ''),
			ifNull(toString(archived_at), ''), toString(last_active_at), ifNull(toString(last_message_at), ''), created_by,
			toString(participants), toString(departed), toString(messages), toString(direct_messages), toString(bytes))
		FROM rooms ORDER BY room_id`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
