package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store"
)

func TestSend(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	ann, bob := join(t, s, room.ID, "ann"), join(t, s, room.ID, "bob")
	var want []store.Message
	for _, target := range []string{"", "bob", bob.ID.String()} {
		m := say(t, s, ann, target, "to "+target)
		expected := store.Message{
			ID: m.ID, RoomID: room.ID, AuthorID: uuid.NullUUID{UUID: ann.ID, Valid: true}, AuthorName: "ann",
			TargetID: uuid.NullUUID{UUID: bob.ID, Valid: true}, Kind: "message", Body: "to " + target, CreatedAt: m.CreatedAt,
		}
		if target == "" {
			expected.TargetID = uuid.NullUUID{}
		}
		if diff := cmp.Diff(expected, m); diff != "" {
			t.Errorf("to %q:\n%s", target, diff)
		}
		want = append(want, m)
	}
	log, err := s.Log(t.Context(), room.ID, 0, 10)
	if diff := cmp.Diff(want, log); err != nil || diff != "" {
		t.Errorf("log: error %v\n%s", err, diff)
	}
	log, err = s.Log(t.Context(), room.ID, want[0].ID, 1)
	if diff := cmp.Diff(want[1:2], log); err != nil || diff != "" {
		t.Errorf("page of the log: error %v\n%s", err, diff)
	}
	if log, err = s.Log(t.Context(), room.ID, want[2].ID, 1); len(log) != 0 || err != nil {
		t.Errorf("end of the log: %v, error %v", log, err)
	}
	if p := join(t, s, room.ID, "late"); p.LastSeenID != want[2].ID {
		t.Errorf("a cursor starts at %d, want %d", p.LastSeenID, want[2].ID)
	}
}

// Ids come from a sequence, and a transaction that drew one may commit after
// one that drew a larger. A reader that goes on from the larger would miss it.
func TestNoIDBecomesVisibleBeforeASmallerOne(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	ann, reader := join(t, s, room.ID, "ann"), join(t, s, room.ID, "reader")
	poll := func() []store.Message {
		got, err := s.Poll(t.Context(), store.PollQuery{Room: room.ID, Participant: reader.ID, Limit: 10, Advance: true})
		if err != nil {
			t.Fatal(err)
		}
		return got.Messages
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it was committed
	slow, err := send(t.Context(), tx, actor, uuid.New(), room.ID, store.NewMessage{ParticipantID: ann.ID, Kind: "message", Body: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	fast := make(chan store.Message, 1)
	go func() {
		m, err := s.Send(t.Context(), actor, nil, room.ID, store.NewMessage{ParticipantID: ann.ID, Kind: "message", Body: "fast"})
		if err != nil {
			t.Error(err)
		}
		fast <- m
	}()
	waiters(t, s, 1)
	if got := poll(); len(got) != 0 {
		t.Fatalf("visible before the smaller id %d: %+v", slow.ID, got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]store.Message{slow, <-fast}, poll()); diff != "" {
		t.Error(diff)
	}
}

// Another room's senders do not wait.
func TestRoomsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	busy, idle := newRoom(t, s), newRoom(t, s)
	ann, bob := join(t, s, busy.ID, "ann"), join(t, s, idle.ID, "bob")
	err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := send(t.Context(), tx, actor, uuid.New(), busy.ID, store.NewMessage{ParticipantID: ann.ID, Kind: "message", Body: "b"})
		say(t, s, bob, "", "b")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsSentAfterTheArchive(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for range 10 {
		room := newRoom(t, s)
		ann := join(t, s, room.ID, "ann")
		var acknowledged atomic.Int64
		var g errgroup.Group
		begun := make(chan struct{}, 100)
		for range 4 {
			g.Go(func() error {
				for {
					_, err := s.Send(t.Context(), actor, nil, room.ID, store.NewMessage{ParticipantID: ann.ID, Kind: "message", Body: "b"})
					if errors.Is(err, store.ErrArchived) {
						return nil
					}
					if err != nil {
						return err
					}
					acknowledged.Add(1)
					signal(begun)
				}
			})
			g.Go(func() error {
				for {
					_, err := s.Join(t.Context(), actor, nil, room.ID, store.NewParticipant{Name: "n", Role: "human"})
					if errors.Is(err, store.ErrArchived) {
						return nil
					}
					if err != nil {
						return err
					}
				}
			})
		}
		<-begun
		if _, err := s.ArchiveRoom(t.Context(), actor, room.ID); err != nil {
			t.Fatal(err)
		}
		atArchive := column[int64](t, s, `SELECT count(*) FROM chat_messages WHERE room_id = $1`, room.ID)[0]
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		archived, err := s.Room(t.Context(), room.ID)
		if err != nil {
			t.Fatal(err)
		}
		late := column[int64](t, s, `
			SELECT (SELECT count(*) FROM chat_messages WHERE room_id = $1 AND created_at > $2)
				+ (SELECT count(*) FROM chat_participants WHERE room_id = $1 AND joined_at > $2)`, room.ID, archived.ArchivedAt)[0]
		all := column[int64](t, s, `SELECT count(*) FROM chat_messages WHERE room_id = $1`, room.ID)[0]
		if late != 0 || all != atArchive || all != acknowledged.Load() {
			t.Fatalf("%d rows are later than the archive; %d messages, %d at the archive, %d acknowledged", late, all, atArchive, acknowledged.Load())
		}
	}
}

// Every participant gets what it may see once and in order, of many senders at
// once, however many polls of its own are under way.
func TestManySendersAndPollers(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name  string
		polls int // of a participant at once
		next  func(t *testing.T, s *Store, p *store.Participant) (store.Poll, error)
	}{
		{"advancing", 1, advancing},
		{"advancing, several polls each", 3, advancing},
		{"acknowledging", 1, func(t *testing.T, s *Store, p *store.Participant) (store.Poll, error) {
			got, err := s.Poll(t.Context(), store.PollQuery{Room: p.RoomID, Participant: p.ID, Limit: 23})
			if n := len(got.Messages); err == nil && n > 0 {
				*p, err = s.Ack(t.Context(), p.RoomID, p.ID, got.Messages[n-1].ID)
			}
			return got, err
		}},
		{"from an id of its own", 1, func(t *testing.T, s *Store, p *store.Participant) (store.Poll, error) {
			got, err := s.Poll(t.Context(), store.PollQuery{Room: p.RoomID, Participant: p.ID, Limit: 23, After: &p.LastSeenID})
			if n := len(got.Messages); n > 0 {
				p.LastSeenID = got.Messages[n-1].ID
			}
			return got, err
		}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			converse(t, mode.polls, mode.next)
		})
	}
}

func advancing(t *testing.T, s *Store, p *store.Participant) (store.Poll, error) {
	return s.Poll(t.Context(), store.PollQuery{Room: p.RoomID, Participant: p.ID, Limit: 23, Advance: true})
}

func converse(t *testing.T, polls int, next func(*testing.T, *Store, *store.Participant) (store.Poll, error)) {
	const senders, pollers, each = 16, 16, 200
	s := newStore(t)
	room := newRoom(t, s)
	var talkers, readers []store.Participant
	for i := range senders {
		talkers = append(talkers, join(t, s, room.ID, fmt.Sprint("sender ", i)))
	}
	for i := range pollers {
		readers = append(readers, join(t, s, room.ID, fmt.Sprint("poller ", i)))
	}
	var sending, polling errgroup.Group
	for i, talker := range talkers {
		sending.Go(func() error {
			for j := range each {
				n := store.NewMessage{ParticipantID: talker.ID, Kind: "message", Body: fmt.Sprint(i, " ", j)}
				if j%3 == 1 { // for one alone, by its name or its id
					n.Target = readers[(i+j)%pollers].Name
				} else if j%9 == 2 {
					n.Target = readers[(i+j)%pollers].ID.String()
				}
				if _, err := s.Send(t.Context(), actor, nil, room.ID, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	sent := make(chan struct{})
	got := make([][]store.Message, pollers)
	for i := range readers {
		var mu sync.Mutex
		for range polls {
			me, last := readers[i], false
			polling.Go(func() error {
				news, stop := s.Subscribe(room.ID)
				defer stop()
				for {
					answer, err := next(t, s, &me)
					if err != nil {
						return err
					}
					for j := 1; j < len(answer.Messages); j++ {
						if answer.Messages[j-1].ID >= answer.Messages[j].ID {
							return fmt.Errorf("id %d came after %d", answer.Messages[j].ID, answer.Messages[j-1].ID)
						}
					}
					mu.Lock()
					got[i] = append(got[i], answer.Messages...)
					mu.Unlock()
					if len(answer.Messages) > 0 {
						continue
					}
					if last {
						return nil
					}
					select {
					case <-news:
					case <-sent:
						last = true
					}
				}
			})
		}
	}
	err := sending.Wait()
	close(sent)
	if err := errors.Join(err, polling.Wait()); err != nil {
		t.Fatal(err)
	}
	log, err := s.Log(t.Context(), room.ID, 0, 10_000)
	if err != nil || len(log) != senders*each {
		t.Fatalf("%d messages in the log, error %v", len(log), err)
	}
	for i, reader := range readers {
		var want []store.Message
		for _, m := range log {
			if !m.TargetID.Valid || m.TargetID.UUID == reader.ID {
				want = append(want, m)
			}
		}
		if polls > 1 { // which of its polls was first is not known
			slices.SortFunc(got[i], func(a, b store.Message) int { return int(a.ID - b.ID) })
		}
		if !slices.Equal(want, got[i]) {
			t.Errorf("poller %d got %d messages, want %d", i, len(got[i]), len(want))
		}
	}
}
