package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/store"
)

func poll(t *testing.T, s *Store, q store.PollQuery) store.Poll {
	t.Helper()
	p, err := s.Poll(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func cursor(t *testing.T, s *Store, p store.Participant) int64 {
	t.Helper()
	return column[int64](t, s, `SELECT last_seen_id FROM chat_participants WHERE id = $1`, p.ID)[0]
}

func TestWhatAParticipantMaySee(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	ann, bob, eve := join(t, s, room.ID, "ann"), join(t, s, room.ID, "bob"), join(t, s, room.ID, "eve")
	all := []store.Message{say(t, s, ann, "", "all"), say(t, s, ann, "bob", "bob's"), say(t, s, bob, "ann", "ann's"), say(t, s, ann, "ann", "own")}
	for name, c := range map[string]struct {
		p    store.Participant
		want []store.Message
	}{
		"ann": {ann, all},
		"bob": {bob, all[:3]},
		"eve": {eve, all[:1]},
	} {
		got := poll(t, s, store.PollQuery{Room: room.ID, Participant: c.p.ID, Limit: 10, Advance: true})
		if diff := cmp.Diff(store.Poll{Messages: c.want, Status: store.Active}, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if at := cursor(t, s, c.p); at != all[3].ID {
			t.Errorf("%s's cursor is at %d, want %d", name, at, all[3].ID)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	ann, bob := join(t, s, room.ID, "ann"), join(t, s, room.ID, "bob")
	var all []store.Message
	for range 7 {
		all = append(all, say(t, s, ann, "", "b"))
	}
	for i, want := range []store.Poll{
		{Messages: all[:3], Status: store.Active, More: true},
		{Messages: all[3:6], Status: store.Active, More: true},
		{Messages: all[6:], Status: store.Active},
		{Status: store.Active},
	} {
		got := poll(t, s, store.PollQuery{Room: room.ID, Participant: bob.ID, Limit: 3, Advance: true})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("page %d:\n%s", i, diff)
		}
	}
	if _, err := s.ArchiveRoom(t.Context(), actor, room.ID); err != nil {
		t.Fatal(err)
	}
	got := poll(t, s, store.PollQuery{Room: room.ID, Participant: ann.ID, Limit: 7, Advance: true})
	if diff := cmp.Diff(store.Poll{Messages: all, Status: store.Archived}, got); diff != "" {
		t.Errorf("after the archive:\n%s", diff)
	}
}

// A page of others' direct messages once said that there was more, for ever.
func TestOthersDirectMessagesAreNoMore(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	ann, eve := join(t, s, room.ID, "ann"), join(t, s, room.ID, "eve")
	join(t, s, room.ID, "bob")
	var last store.Message
	for range 10 {
		last = say(t, s, ann, "bob", "secret")
	}
	q := store.PollQuery{Room: room.ID, Participant: eve.ID, Limit: 3, Advance: true}
	if diff := cmp.Diff(store.Poll{Status: store.Active}, poll(t, s, q)); diff != "" {
		t.Error(diff)
	}
	if at := cursor(t, s, eve); at != last.ID {
		t.Errorf("the cursor is at %d, want it past %d", at, last.ID)
	}
	seen := say(t, s, ann, "", "all")
	say(t, s, ann, "bob", "secret")
	q.Limit = 1
	if diff := cmp.Diff(store.Poll{Messages: []store.Message{seen}, Status: store.Active}, poll(t, s, q)); diff != "" {
		t.Error(diff)
	}
}

// A page of large messages ends early, and the next one goes on behind it.
func TestAPageOfLargeMessages(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	ann, bob := join(t, s, room.ID, "ann"), join(t, s, room.ID, "bob")
	var all []store.Message
	for _, size := range []int{400, 400, 300, 5000, 100} {
		all = append(all, say(t, s, ann, "", strings.Repeat("x", size)))
	}
	q := store.PollQuery{Room: room.ID, Participant: bob.ID, Limit: 10, MaxBytes: 1000, Advance: true}
	for _, want := range []store.Poll{
		{Messages: all[:2], Status: store.Active, More: true},
		{Messages: all[2:3], Status: store.Active, More: true},
		{Messages: all[3:4], Status: store.Active, More: true}, // one at least
		{Messages: all[4:], Status: store.Active},
		{Status: store.Active},
	} {
		if diff := cmp.Diff(want, poll(t, s, q)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestReadingWithoutAdvancing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := newRoom(t, s)
	ann, bob := join(t, s, room.ID, "ann"), join(t, s, room.ID, "bob")
	all := []store.Message{say(t, s, ann, "", "1"), say(t, s, ann, "", "2"), say(t, s, ann, "", "3")}
	q := store.PollQuery{Room: room.ID, Participant: bob.ID, Limit: 10}
	for range 2 {
		if diff := cmp.Diff(all, poll(t, s, q).Messages); diff != "" {
			t.Error(diff)
		}
	}
	q.After = &all[1].ID
	if diff := cmp.Diff(all[2:], poll(t, s, q).Messages); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		seen, at int64
		err      error
	}{
		{all[1].ID, all[1].ID, nil},
		{all[0].ID, all[1].ID, nil}, // never back
		{-1, all[1].ID, nil},
		{all[2].ID + 1, all[1].ID, store.ErrBeyond},
		{all[2].ID, all[2].ID, nil},
	} {
		p, err := s.Ack(t.Context(), room.ID, bob.ID, c.seen)
		if !errors.Is(err, c.err) || (c.err == nil && (err != nil || p.LastSeenID != c.at)) || cursor(t, s, bob) != c.at {
			t.Errorf("acknowledged %d: %+v, error %v, cursor at %d; want %d, %v", c.seen, p, err, cursor(t, s, bob), c.at, c.err)
		}
	}
	before := int64(0) // what was acknowledged can be read again
	q.After = &before
	if diff := cmp.Diff(all, poll(t, s, q).Messages); diff != "" {
		t.Error(diff)
	}
}

// A larger id in another room is no message of this one.
func TestAcknowledgingAnotherRoomsMessage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room, other := newRoom(t, s), newRoom(t, s)
	ann, bob := join(t, s, room.ID, "ann"), join(t, s, other.ID, "bob")
	say(t, s, ann, "", "1")
	if _, err := s.Ack(t.Context(), room.ID, ann.ID, say(t, s, bob, "", "2").ID); !errors.Is(err, store.ErrBeyond) {
		t.Error(err)
	}
}

// The answer of the statement that moves a cursor is lost, and before it is
// asked about, another poll moves the cursor further. The first one's messages
// are in nobody else's answer.
func TestAPollWhoseAnswerWasLostBesideAFasterOne(t *testing.T) {
	t.Parallel()
	address := engines.Postgres(t)
	direct := openStore(t, address)
	if _, err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, through := newProxy(t, address)
	s := openStore(t, through)
	room := newRoom(t, direct)
	ann, bob := join(t, direct, room.ID, "ann"), join(t, direct, room.ID, "bob")
	say(t, direct, ann, "", "0")
	q := store.PollQuery{Room: room.ID, Participant: bob.ID, Limit: 10, Advance: true}
	poll(t, s, q) // prepares both statements
	first := say(t, direct, ann, "", "1")
	lost := p.loseReply(2)
	p.shutGate()
	done := make(chan store.Poll, 1)
	go func() {
		got, err := s.Poll(t.Context(), q)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	<-lost
	second := say(t, direct, ann, "", "2")
	if diff := cmp.Diff([]store.Message{second}, poll(t, direct, q).Messages); diff != "" {
		t.Errorf("the faster poll:\n%s", diff)
	}
	p.openGate()
	if diff := cmp.Diff([]store.Message{first}, (<-done).Messages); diff != "" {
		t.Errorf("the poll whose answer was lost:\n%s", diff)
	}
}

// Neither is a page lost nor given twice when any exchange of a poll fails.
func TestEveryExchangeOfAPollIsLostOnce(t *testing.T) {
	t.Parallel()
	address := engines.Postgres(t)
	direct := openStore(t, address)
	if _, err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	room := newRoom(t, direct)
	ann, bob := join(t, direct, room.ID, "ann"), join(t, direct, room.ID, "bob")
	q := store.PollQuery{Room: room.ID, Participant: bob.ID, Limit: 10, Advance: true}
	for _, arm := range []func(*proxy, int) <-chan struct{}{(*proxy).loseQuery, (*proxy).loseReply} {
		for n, lost := 1, true; lost; n++ {
			p, through := newProxy(t, address)
			s := openStore(t, through)
			want := []store.Message{say(t, direct, ann, "", "1"), say(t, direct, ann, "", "2")}
			arm(p, n)
			got := poll(t, s, q)
			lost = p.disarm()
			if diff := cmp.Diff(want, got.Messages); diff != "" {
				t.Errorf("exchange %d lost:\n%s", n, diff)
			}
			if again := poll(t, s, q); len(again.Messages) != 0 {
				t.Errorf("exchange %d lost: given again: %+v", n, again.Messages)
			}
			s.Close()
		}
	}
}
