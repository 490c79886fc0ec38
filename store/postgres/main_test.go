package postgres

import (
	"flag"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
)

var (
	engines *enginetest.Engines
	update  = flag.Bool("update", false, "rewrite the golden files")
)

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, nil)
	os.Exit(engines.Run(m))
}

// openStore opens a store on the database at address, which no test but the
// caller's uses.
func openStore(t *testing.T, address string) *Store {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL = address
	s, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// newStore opens a store on a database of its own, which is not synced to the
// disk: the engine outlives the test.
func newStore(t *testing.T) *Store {
	t.Helper()
	s := openStore(t, engines.Postgres(t)+"&synchronous_commit=off")
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// actor asks in tests where it does not matter who does.
var actor = store.Actor{Name: "ann", Subject: "subject-1", RequestID: "run-1"}

// counted is the value of a counter or a gauge.
func counted(c prometheus.Collector) int {
	return int(testutil.ToFloat64(c))
}

func writeHandoff(t *testing.T, s *Store, key, body string) store.Handoff {
	t.Helper()
	h, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{Key: key, Project: "p", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newRoom(t *testing.T, s *Store) store.Room {
	t.Helper()
	r, err := s.CreateRoom(t.Context(), actor, nil, store.NewRoom{Name: "room", CreatedBy: "orchestrator"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func join(t *testing.T, s *Store, room uuid.UUID, name string) store.Participant {
	t.Helper()
	p, err := s.Join(t.Context(), actor, nil, room, store.NewParticipant{Name: name, Role: "implementer"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// say sends a message; target may be empty.
func say(t *testing.T, s *Store, from store.Participant, target, body string) store.Message {
	t.Helper()
	m, err := s.Send(t.Context(), actor, nil, from.RoomID, store.NewMessage{ParticipantID: from.ID, Target: target, Kind: "message", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// events are the actions in the outbox, in the order in which they were
// written.
func events(t *testing.T, s *Store) []string {
	t.Helper()
	return column[string](t, s, `SELECT action FROM chat_outbox ORDER BY id`)
}

// column is the only column of a query.
func column[T any](t *testing.T, s *Store, sql string, args ...any) []T {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func execute(t *testing.T, s *Store, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// aged makes every revision an hour older.
func aged(t *testing.T, s *Store) {
	t.Helper()
	execute(t, s, `UPDATE chat_handoff_revisions SET written_at = written_at - interval '1 hour'`)
}

// eventually waits until something holds that another session brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came about: ", what)
		}
	}
}
