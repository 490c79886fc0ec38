package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

var read = store.Event{
	Action: store.HandoffRead, Actor: "ann", RequestID: "run-1", Project: "p", Repo: "r", Kind: "k", Key: "key",
	Revision: 7, Age: 90 * time.Second, Bytes: 12,
}

func TestReadsEndInTheOutbox(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run(t, s)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	timed := read
	timed.At = at
	s.Recorded(timed)
	s.Recorded(read)
	eventually(t, "both are written", func() bool { return len(events(t, s)) == 2 })
	rows, err := s.pool.Query(t.Context(), `
		SELECT event_id, at, action, actor, request_id, project, repo, kind, handoff_key, revision, age_ms, bytes FROM chat_outbox ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e store.Event, err error) {
		var age int64
		err = row.Scan(&e.ID, &e.At, &e.Action, &e.Actor, &e.RequestID, &e.Project, &e.Repo, &e.Kind, &e.Key, &e.Revision, &age, &e.Bytes)
		e.Age = time.Duration(age) * time.Millisecond
		return e, err
	})
	if err != nil {
		t.Fatal(err)
	}
	untimed := read
	timed.ID, untimed.ID, untimed.At = got[0].ID, got[1].ID, got[1].At
	if diff := cmp.Diff([]store.Event{timed, untimed}, got); diff != "" {
		t.Error(diff)
	}
	if got[0].ID == got[1].ID || time.Since(untimed.At).Abs() > time.Minute {
		t.Errorf("ids %v and %v, time %v", got[0].ID, got[1].ID, untimed.At)
	}
}

func TestReadsAreWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 10 {
		s.Recorded(read)
	}
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(events(t, s)); n != 10 {
		t.Errorf("%d reads are in the outbox", n)
	}
}

func TestReadsThatFindNoRoomAreCounted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for range readNotes + 3 {
		s.Recorded(read)
	}
	if n := counted(s.metrics.lostReads); n != 3 {
		t.Errorf("%d were counted", n)
	}
	s.reads.write(t.Context())
	if n := len(events(t, s)); n != readNotes {
		t.Errorf("%d reads are in the outbox", n)
	}
}

func TestReadsThatCannotBeWrittenAreCounted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	execute(t, s, `DROP TABLE chat_outbox`)
	for range 5 {
		s.Recorded(read)
	}
	s.reads.write(t.Context())
	if n := counted(s.metrics.lostReads); n != 5 {
		t.Errorf("%d were counted", n)
	}
}
