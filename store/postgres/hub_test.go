package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/szymonrychu/tatara-ledger/store"
)

// run runs a store until the test ends.
func run(t *testing.T, s *Store) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// hears waits for news.
func hears(t *testing.T, news <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-news:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was woken: ", what)
	}
}

// replicas are two stores on one database, of which the second hears the
// first. news are the second's.
func replicas(t *testing.T, address, addressOfSecond string, room uuid.UUID) (first, second *Store, news <-chan struct{}) {
	t.Helper()
	first, second = openStore(t, address), openStore(t, addressOfSecond)
	second.hub.silence = 200 * time.Millisecond
	news, stop := second.Subscribe(room)
	t.Cleanup(stop)
	run(t, second)
	run(t, first)
	hears(t, news, "the connection that listens is there")
	return first, second, news
}

func migrated(t *testing.T) (address string, room store.Room, ann store.Participant) {
	t.Helper()
	address = engines.Postgres(t)
	s := openStore(t, address)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	room = newRoom(t, s)
	return address, room, join(t, s, room.ID, "ann")
}

func TestNewsOfAnotherReplica(t *testing.T) {
	t.Parallel()
	address, room, ann := migrated(t)
	first, second, news := replicas(t, address, address, room.ID)
	say(t, first, ann, "", "hello")
	hears(t, news, "a message")
	if got := poll(t, second, store.PollQuery{Room: room.ID, Participant: ann.ID, Limit: 10}); len(got.Messages) != 1 {
		t.Errorf("news came before the message")
	}
	if _, err := first.ArchiveRoom(t.Context(), actor, room.ID); err != nil {
		t.Fatal(err)
	}
	hears(t, news, "the archive")
}

// What this process says comes back to it through Postgres.
func TestOwnNewsDoNotWakeTwice(t *testing.T) {
	t.Parallel()
	address, room, ann := migrated(t)
	first, second, news := replicas(t, address, address, room.ID)
	own, stop := first.Subscribe(room.ID)
	defer stop()
	marker := uuid.New()
	marked, stopMarked := first.Subscribe(marker)
	defer stopMarked()
	// The first one's ear may not be open yet: only then is it woken by this.
	eventually(t, "the first replica listens", func() bool {
		second.hub.tell(marker)
		select {
		case <-marked:
			return true
		case <-time.After(10 * time.Millisecond):
			return false
		}
	})
	time.Sleep(50 * time.Millisecond) // for what was told in vain
	for _, c := range []<-chan struct{}{own, marked, news} {
		select {
		case <-c:
		default:
		}
	}
	say(t, first, ann, "", "hello")
	hears(t, own, "who waits here")
	hears(t, news, "who waits there")
	second.hub.tell(marker) // it is behind the other one
	hears(t, marked, "the marker")
	select {
	case <-own:
		t.Error("own news woke twice")
	default:
	}
}

func TestTheConnectionThatListensIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*proxy){"cut": (*proxy).cutAll, "unnoticed": (*proxy).deafen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, room, ann := migrated(t)
			p, through := newProxy(t, address)
			first, second, news := replicas(t, address, through, room.ID)
			lose(p)
			// Nothing was said, but it might have been.
			hears(t, news, "the connection is there again")
			say(t, first, ann, "", "hello")
			hears(t, news, "a message after that")
			if got := poll(t, second, store.PollQuery{Room: room.ID, Participant: ann.ID, Limit: 10}); len(got.Messages) != 1 {
				t.Errorf("%d messages", len(got.Messages))
			}
		})
	}
}

// A silent connection that is well is kept.
func TestSilenceEndsNoConnection(t *testing.T) {
	t.Parallel()
	address, room, ann := migrated(t)
	first, second, news := replicas(t, address, address, room.ID)
	time.Sleep(3 * second.hub.silence)
	select {
	case <-news:
		t.Error("it connected again")
	default:
	}
	say(t, first, ann, "", "hello")
	hears(t, news, "a message after silence")
}

// The connection that announces is lost, and no further news give a reason to
// try again.
func TestTheConnectionThatAnnouncesIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*proxy){"cut": (*proxy).cutAll, "unnoticed": (*proxy).deafen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, room, ann := migrated(t)
			p, through := newProxy(t, address)
			first, _, news := replicas(t, through, address, room.ID)
			say(t, first, ann, "", "hello")
			hears(t, news, "before")
			lose(p)
			first.hub.tell(room.ID)
			hears(t, news, "after")
		})
	}
}

func TestAnnouncementsAreBatched(t *testing.T) {
	t.Parallel()
	h := newStore(t).hub
	rooms := make([]uuid.UUID, 100)
	for i := range rooms {
		rooms[i] = uuid.New()
	}
	h.tell(rooms...)
	h.tell(rooms[:50]...)
	got := h.takeNews()
	if len(got) != len(rooms) || !slices.IsSorted(got) || len(h.wake) != 1 {
		t.Errorf("%d announcements, %d wakes", len(got), len(h.wake))
	}
	if again := h.takeNews(); len(again) != 0 {
		t.Errorf("announced again: %v", again)
	}
}

func TestASubscriptionIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room := uuid.New()
	a, stopA := s.Subscribe(room)
	b, stopB := s.Subscribe(room)
	s.hub.tell(room)
	s.hub.tell(room) // nobody waits for one who does not listen
	for _, c := range []<-chan struct{}{a, b} {
		if len(c) != 1 {
			t.Error("not woken")
		}
	}
	<-b
	stopB()
	s.hub.tell(room)
	if len(b) != 0 || len(a) != 1 {
		t.Error("one that was given back is woken")
	}
	stopA()
	stopA()
	if n := len(s.hub.waiting); n != 0 {
		t.Errorf("%d rooms are left", n)
	}
}

// Alone, since it looks at every goroutine.
func TestRunLeavesNothing(t *testing.T) {
	address := engines.Postgres(t)
	before := goleak.IgnoreCurrent()
	s := openStore(t, address)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	room := newRoom(t, s)
	news, unsubscribe := s.Subscribe(room.ID)
	say(t, s, join(t, s, room.ID, "ann"), "", "hello")
	hears(t, news, "a message")
	unsubscribe()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.Close()
	goleak.VerifyNone(t, before)
}
