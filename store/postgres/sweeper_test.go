package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store"
)

// newSweeper returns a sweeper and the number of rooms that it archived.
func newSweeper(t *testing.T, s *Store, configure func(*SweepConfig)) (*Sweeper, *atomic.Int64) {
	t.Helper()
	cfg := DefaultSweepConfig()
	configure(&cfg)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	archived := new(atomic.Int64)
	return NewSweeper(cfg, s, func(n int) { archived.Add(int64(n)) }, slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry()), archived
}

func sweep(t *testing.T, w *Sweeper) {
	t.Helper()
	if err := w.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, s *Store, id uuid.UUID) store.RoomStatus {
	t.Helper()
	r, err := s.Room(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r.Status
}

func olderRoom(t *testing.T, s *Store, id uuid.UUID) {
	t.Helper()
	execute(t, s, `UPDATE chat_rooms SET created_at = created_at - interval '25 hours' WHERE id = $1`, id)
}

func olderMessages(t *testing.T, s *Store, id uuid.UUID) {
	t.Helper()
	execute(t, s, `UPDATE chat_messages SET created_at = created_at - interval '25 hours' WHERE room_id = $1`, id)
	execute(t, s, `UPDATE chat_rooms SET last_message_at = last_message_at - interval '25 hours' WHERE id = $1`, id)
}

func TestRoomsExpire(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	old, young := newRoom(t, s), newRoom(t, s)
	ann := join(t, s, old.ID, "ann")
	sent := say(t, s, ann, "", "hello")
	olderRoom(t, s, old.ID)
	news, stop := s.Subscribe(old.ID)
	defer stop()
	w, archived := newSweeper(t, s, func(*SweepConfig) {})
	before := len(events(t, s))
	for range 2 {
		sweep(t, w)
	}
	if a, b := status(t, s, old.ID), status(t, s, young.ID); a != store.Archived || b != store.Active {
		t.Errorf("the old room is %s, the young one %s", a, b)
	}
	select {
	case <-news:
	default:
		t.Error("who waited was not woken")
	}
	got := poll(t, s, store.PollQuery{Room: old.ID, Participant: ann.ID, Limit: 10, Advance: true})
	if len(got.Messages) != 2 {
		t.Fatalf("messages %+v, want the notice behind the other", got.Messages)
	}
	notice := store.Message{
		ID: got.Messages[1].ID, RoomID: old.ID, AuthorName: store.SystemName, Kind: store.KindSystem,
		Body: "This room was archived: it is older than 24h0m0s.", CreatedAt: got.Messages[1].CreatedAt,
	}
	if diff := cmp.Diff(store.Poll{Messages: []store.Message{sent, notice}, Status: store.Archived}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"room_expired"}, events(t, s)[before:]); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
	if archived.Load() != 1 || counted(w.rooms) != 1 || counted(w.failed) != 0 {
		t.Errorf("%d rooms archived, %d active, %d failures", archived.Load(), counted(w.rooms), counted(w.failed))
	}
}

func TestIdleRoomsAreArchived(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	silent, quiet, lively, fresh := newRoom(t, s), newRoom(t, s), newRoom(t, s), newRoom(t, s)
	for _, r := range []store.Room{quiet, lively} {
		say(t, s, join(t, s, r.ID, "ann"), "", "long ago")
		olderMessages(t, s, r.ID)
	}
	for _, r := range []store.Room{silent, quiet, lively} {
		olderRoom(t, s, r.ID)
	}
	say(t, s, join(t, s, lively.ID, "bob"), "", "just now")
	w, archived := newSweeper(t, s, func(c *SweepConfig) { c.RoomTTL, c.RoomIdle = 0, 24*time.Hour })
	sweep(t, w)
	for name, c := range map[string]struct {
		room store.Room
		want store.RoomStatus
	}{
		"never a message": {silent, store.Archived}, "none for long": {quiet, store.Archived},
		"one just now": {lively, store.Active}, "just created": {fresh, store.Active},
	} {
		if got := status(t, s, c.room.ID); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if archived.Load() != 2 {
		t.Errorf("%d rooms archived", archived.Load())
	}
}

// More rooms than one transaction takes, and two replicas that sweep at once.
func TestTwoSweepers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const rooms = 3*batch + 7
	execute(t, s, `
		INSERT INTO chat_rooms (id, name, created_by, status, created_at)
		SELECT gen_random_uuid(), 'r', 'c', 'active', now() - interval '25 hours' FROM generate_series(1, $1::int)`, rooms)
	var g errgroup.Group
	var total []*atomic.Int64
	for range 2 {
		w, archived := newSweeper(t, s, func(*SweepConfig) {})
		total = append(total, archived)
		g.Go(func() error { return w.sweep(t.Context()) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := total[0].Load() + total[1].Load(); n != rooms {
		t.Errorf("%d rooms were archived, want %d", n, rooms)
	}
	for what, sql := range map[string]string{
		"notices":  `SELECT count(*) FROM chat_messages`,
		"events":   `SELECT count(*) FROM chat_outbox WHERE action = 'room_expired'`,
		"archived": `SELECT count(*) FROM chat_rooms WHERE status = 'archived'`,
	} {
		if n := column[int64](t, s, sql)[0]; n != rooms {
			t.Errorf("%d %s, want %d", n, what, rooms)
		}
	}
}

// A sweep does not wait for a room that is busy; the next one takes it.
func TestASweepPassesOverALockedRoom(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	busy, idle := newRoom(t, s), newRoom(t, s)
	olderRoom(t, s, busy.ID)
	olderRoom(t, s, idle.ID)
	w, _ := newSweeper(t, s, func(*SweepConfig) {})
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it was rolled back
	if _, err := tx.Exec(t.Context(), `SELECT FROM chat_rooms WHERE id = $1 FOR NO KEY UPDATE`, busy.ID); err != nil {
		t.Fatal(err)
	}
	sweep(t, w)
	if a, b := status(t, s, busy.ID), status(t, s, idle.ID); a != store.Active || b != store.Archived {
		t.Errorf("the busy room is %s, the other one %s", a, b)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	sweep(t, w)
	if a := status(t, s, busy.ID); a != store.Archived {
		t.Errorf("the room that was busy is %s", a)
	}
}

func TestWhatIsKeptNoLongerIsDeleted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	gone, kept, active := newRoom(t, s), newRoom(t, s), newRoom(t, s)
	for i, r := range []store.Room{gone, kept, active} {
		p := join(t, s, r.ID, "ann")
		for range 3 {
			say(t, s, p, "", "old")
		}
		if r != gone {
			olderMessages(t, s, r.ID)
		}
		say(t, s, p, "", "new")
		_, err := s.CreateRoom(t.Context(), actor, &store.Once{Key: fmt.Sprint(i), Operation: "o", Hash: []byte("h")}, store.NewRoom{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []store.Room{gone, kept} {
		if _, err := s.ArchiveRoom(t.Context(), actor, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, s, `UPDATE chat_rooms SET archived_at = archived_at - interval '25 hours' WHERE id = $1`, gone.ID)
	execute(t, s, `UPDATE chat_idempotency SET created_at = created_at - interval '25 hours' WHERE key <> '2'`)
	w, _ := newSweeper(t, s, func(c *SweepConfig) { c.KeepArchived, c.KeepMessages = 24*time.Hour, 24*time.Hour })
	for range 2 {
		sweep(t, w)
	}
	left := column[string](t, s, `SELECT room_id::text FROM chat_messages ORDER BY id`)
	if diff := cmp.Diff([]string{kept.ID.String(), active.ID.String()}, left); diff != "" {
		t.Errorf("the rooms of the messages that are left:\n%s", diff)
	}
	if n := column[int64](t, s, `SELECT count(*) FROM chat_rooms WHERE id = $1`, gone.ID)[0] + column[int64](t, s, `SELECT count(*) FROM chat_participants WHERE room_id = $1`, gone.ID)[0]; n != 0 {
		t.Errorf("%d rows of the old room are left", n)
	}
	if diff := cmp.Diff([]string{"2"}, column[string](t, s, `SELECT key FROM chat_idempotency`)); diff != "" {
		t.Errorf("idempotency keys:\n%s", diff)
	}
	for of, want := range map[string]int{"room": 1, "message": 4 + 3 + 3, "idempotency_key": 2} {
		if n := counted(w.swept.WithLabelValues(of)); n != want {
			t.Errorf("%d rows of %s were counted, want %d", n, of, want)
		}
	}
}

// What is kept for ever stays.
func TestNothingIsDeletedByDefault(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	say(t, s, join(t, s, room.ID, "ann"), "", "old")
	if _, err := s.ArchiveRoom(t.Context(), actor, room.ID); err != nil {
		t.Fatal(err)
	}
	execute(t, s, `UPDATE chat_rooms SET created_at = '2000-01-01', archived_at = '2000-01-01'`)
	execute(t, s, `UPDATE chat_messages SET created_at = '2000-01-01'`)
	writeHandoff(t, s, "k", "old")
	if _, err := s.DeleteHandoff(t.Context(), actor, "k", store.Precondition{}); err != nil {
		t.Fatal(err)
	}
	execute(t, s, `UPDATE chat_handoff_deletions SET deleted_at = '2000-01-01'`)
	w, _ := newSweeper(t, s, func(*SweepConfig) {})
	sweep(t, w)
	if kept, err := s.Revisions(t.Context(), "k"); len(kept) != 1 || err != nil {
		t.Errorf("revisions %v, error %v", kept, err)
	}
	if log, err := s.Log(t.Context(), room.ID, 0, 10); len(log) != 1 || err != nil {
		t.Errorf("log %v, error %v", log, err)
	}
}

// A deleted handoff can be restored for a time. One that was written again since
// has its revisions, those before the delete included.
func TestDeletedHandoffsAreKeptForATime(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, key := range []string{"old", "again", "fresh"} {
		writeHandoff(t, s, key, "1")
		writeHandoff(t, s, key, "2")
		if _, err := s.DeleteHandoff(t.Context(), actor, key, store.Precondition{}); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, s, `UPDATE chat_handoff_deletions SET deleted_at = deleted_at - interval '25 hours' WHERE handoff_key <> 'fresh'`)
	writeHandoff(t, s, "again", "3")
	w, _ := newSweeper(t, s, func(c *SweepConfig) { c.KeepDeleted = 24 * time.Hour })
	sweep(t, w)
	for key, want := range map[string]int{"old": 0, "again": 3, "fresh": 2} {
		kept, err := s.Revisions(t.Context(), key)
		if len(kept) != want || err != nil && want > 0 {
			t.Errorf("%s: %d revisions, want %d; error %v", key, len(kept), want, err)
		}
	}
	if n := counted(w.swept.WithLabelValues("deleted_handoff")); n != 2 {
		t.Errorf("%d deletes were counted", n)
	}
	if h, err := s.RestoreHandoff(t.Context(), actor, nil, "fresh", 1, store.Precondition{}); err != nil || h.Body != "1" {
		t.Errorf("restored %q, error %v", h.Body, err)
	}
}

// A message that is sent while a sweep looks at the room keeps it from being
// archived as idle.
func TestAMessageBeforeTheLockOfASweep(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	ann := join(t, s, room.ID, "ann")
	olderRoom(t, s, room.ID)
	// The condition is evaluated, then the message is sent, then the lock is taken.
	execute(t, s, `
		CREATE FUNCTION slow(boolean) RETURNS boolean LANGUAGE plpgsql AS $$
			BEGIN PERFORM pg_advisory_xact_lock(1); RETURN $1; END $$`)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it was committed
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1)`); err != nil {
		t.Fatal(err)
	}
	w, archived := newSweeper(t, s, func(*SweepConfig) {})
	done := make(chan error, 1)
	go func() {
		rooms, err := w.archiveBatch(t.Context(), `slow(`+idle+`)`, 24*time.Hour, "idle")
		archived.Add(int64(len(rooms)))
		done <- err
	}()
	waiters(t, s, 1)
	say(t, s, ann, "", "still here")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := status(t, s, room.ID); got != store.Active || archived.Load() != 0 {
		t.Errorf("the room is %s, %d archived", got, archived.Load())
	}
}

func TestASweepThatFailsIsCounted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	olderRoom(t, s, room.ID)
	execute(t, s, `ALTER TABLE chat_rooms RENAME TO away`)
	w, archived := newSweeper(t, s, func(c *SweepConfig) { c.Every = 10 * time.Millisecond })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	eventually(t, "a failure is counted", func() bool { return counted(w.failed) > 0 })
	execute(t, s, `ALTER TABLE away RENAME TO chat_rooms`)
	eventually(t, "the next sweep goes on", func() bool { return archived.Load() == 1 })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSweepConfig(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*SweepConfig){
		"no time between sweeps":     func(c *SweepConfig) { c.Every = 0 },
		"a negative age":             func(c *SweepConfig) { c.RoomTTL = -1 },
		"a negative idle time":       func(c *SweepConfig) { c.RoomIdle = -1 },
		"a negative time of rooms":   func(c *SweepConfig) { c.KeepArchived = -1 },
		"a negative time of deleted": func(c *SweepConfig) { c.KeepDeleted = -1 },
		"a negative time":            func(c *SweepConfig) { c.KeepMessages = -1 },
		"keys that are soon gone":    func(c *SweepConfig) { c.KeepKeys = time.Second },
	} {
		c := DefaultSweepConfig()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
