package api

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store"
)

func (s *service) poll(room, participant, query string) wire.Poll {
	s.t.Helper()
	return into[wire.Poll](s.do("GET", "/rooms/"+room+"/messages?participant="+participant+query, nil).want(200))
}

func idsOf(messages []wire.Message) (out []int64) {
	for _, m := range messages {
		out = append(out, m.ID)
	}
	return out
}

// TestVisibleMessages: global ones, those targeted at P and those authored by
// P; a new participant starts at the room's last message.
func TestVisibleMessages(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	a, b, c := s.participant(room, "a"), s.participant(room, "b"), s.participant(room, "c")
	global := s.say(room, a, "all", "").ID
	dm := s.say(room, a, "for b", "b").ID
	for who, want := range map[string][]int64{a: {global, dm}, b: {global, dm}, c: {global}} {
		if p := s.poll(room, who, ""); !slices.Equal(idsOf(p.Messages), want) || p.HasMore || p.RoomStatus != "active" {
			t.Errorf("%+v, want %v", p, want)
		}
		if p := s.poll(room, who, ""); p.Count != 0 {
			t.Errorf("delivered twice: %+v", p)
		}
	}
	late := into[wire.Participant](s.do("POST", "/rooms/"+room+"/participants", `{"name":"late"}`).want(201))
	if late.LastSeenID != dm || s.poll(room, late.ID, "").Count != 0 {
		t.Errorf("%+v", late)
	}
}

// TestOthersDirectMessages: a page of other people's direct messages reported
// has_more and blocked the poll for ever; an audit's finding.
func TestOthersDirectMessages(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	a, c := s.participant(room, "a"), s.participant(room, "c")
	s.participant(room, "b")
	for i := range 5 {
		s.say(room, a, fmt.Sprint(i), "b")
	}
	if p := s.poll(room, c, "&limit=2"); p.HasMore || p.Count != 0 {
		t.Errorf("%+v", p)
	}
	id := s.say(room, a, "all", "").ID
	if p := s.poll(room, c, "&limit=2&wait=10s"); p.HasMore || !slices.Equal(idsOf(p.Messages), []int64{id}) {
		t.Errorf("%+v", p)
	}
}

func TestPollInPages(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	a, b := s.participant(room, "a"), s.participant(room, "b")
	var want, got []int64
	for i := range 5 {
		want = append(want, s.say(room, a, fmt.Sprint(i), "").ID)
	}
	for _, more := range []bool{true, true, false} {
		p := s.poll(room, b, "&limit=2")
		if got = append(got, idsOf(p.Messages)...); p.HasMore != more {
			t.Errorf("%+v", p)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestReadWithoutAdvancing: mcp_agent_mail#254, where listing marked messages
// read and the answer was lost.
func TestReadWithoutAdvancing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	a, b := s.participant(room, "a"), s.participant(room, "b")
	one, two, three := s.say(room, a, "1", "").ID, s.say(room, a, "2", "").ID, s.say(room, a, "3", "").ID
	for range 2 {
		for query, want := range map[string][]int64{
			"&advance=false":             {one, two, three},
			"&advance=0&limit=1":         {one},
			"&after=0":                   {one, two, three},
			fmt.Sprint("&after=", two):   {three},
			fmt.Sprint("&after=", three): nil,
			"&advance=false&after=1":     {two, three},
		} {
			if query == "&advance=false&after=1" {
				query = fmt.Sprint("&advance=false&after=", one)
			}
			if p := s.poll(room, b, query); !slices.Equal(idsOf(p.Messages), want) {
				t.Errorf("%s: %+v, want %v", query, p, want)
			}
		}
	}
	ack := func(id int64) wire.Participant {
		return into[wire.Participant](s.do("POST", "/rooms/"+room+"/participants/"+b+"/ack", map[string]int64{"last_seen_id": id}).want(200))
	}
	if p := ack(two); p.LastSeenID != two {
		t.Errorf("%+v", p)
	}
	if p := ack(one); p.LastSeenID != two {
		t.Errorf("a cursor moved back: %+v", p)
	}
	if p := s.poll(room, b, "&advance=false"); !slices.Equal(idsOf(p.Messages), []int64{three}) {
		t.Errorf("%+v", p)
	}
	s.do("HEAD", "/rooms/"+room+"/messages?participant="+b, nil).want(200)
	if p := s.poll(room, b, ""); !slices.Equal(idsOf(p.Messages), []int64{three}) {
		t.Errorf("HEAD moved the cursor: %+v", p)
	}
}

func TestPollParameters(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	p := s.participant(room, "p")
	s.do("GET", "/rooms/"+room+"/messages", nil).fails(400, "participant")
	s.do("GET", "/rooms/"+room+"/messages?participant=", nil).fails(400, "participant")
	for query, field := range map[string]string{
		"wait=x": "wait", "wait=-1": "wait", "wait=-1s": "wait", "wait=-0.5s": "wait", "wait=1e3": "wait",
		"wait=1s&wait=2s": "wait", "advance=maybe": "advance", "advance=": "advance", "advance=true&after=1": "advance",
		"after=-1": "after", "after=x": "after", "limit=0": "limit", "timeout=3": "timeout",
	} {
		s.do("GET", "/rooms/"+room+"/messages?participant="+p+"&"+query, nil).fails(400, field)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	s := &server{maxWait: 30 * time.Second}
	for v, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "30": 30 * time.Second, "0": 0, "0s": 0, "1.5s": 1500 * time.Millisecond, "250ms": 250 * time.Millisecond,
		"31s": 30 * time.Second, "1h": 30 * time.Second, "9223372036854775807": 30 * time.Second, "2562047h": 30 * time.Second,
	} {
		if got, err := s.waitOf(params{"wait": v}); err != nil || got != want {
			t.Errorf("%s: %v, %v", v, got, err)
		}
	}
}

// TestLongPoll: a wait ends with the news; without any, at its end.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) { c.MaxWait = 2 * time.Second })
	room := s.room()
	a, b := s.participant(room, "a"), s.participant(room, "b")
	answers := make(chan wire.Poll, 1)
	go func() { answers <- s.poll(room, b, "&wait=2s") }()
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	id := s.say(room, a, "news", "").ID
	if p := <-answers; !slices.Equal(idsOf(p.Messages), []int64{id}) || time.Since(start) > time.Second {
		t.Errorf("%+v after %v", p, time.Since(start))
	}
	// Clamped to the maximum.
	start = time.Now()
	if p := s.poll(room, b, "&wait=1h"); p.Count != 0 || p.RoomStatus != "active" || time.Since(start) < 2*time.Second || time.Since(start) > 10*time.Second {
		t.Errorf("%+v after %v", p, time.Since(start))
	}
}

// TestRoomStatusAfterTheWait: what was read before the wait was stale after it;
// an audit's finding.
func TestRoomStatusAfterTheWait(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	b := s.participant(room, "b")
	answers := make(chan wire.Poll, 1)
	go func() { answers <- s.poll(room, b, "&wait=20s") }()
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	s.do("DELETE", "/rooms/"+room, nil).want(204)
	if p := <-answers; p.RoomStatus != "archived" || time.Since(start) > 5*time.Second {
		t.Errorf("%+v after %v", p, time.Since(start))
	}
	start = time.Now()
	for range 2 { // its notice, then nothing
		if p := s.poll(room, b, "&wait=20s"); p.RoomStatus != "archived" || time.Since(start) > 5*time.Second {
			t.Errorf("%+v after %v", p, time.Since(start))
		}
	}
}

// TestShutdownDuringLongPoll: long polls starved shutdown; an audit's finding.
func TestShutdownDuringLongPoll(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	b := s.participant(room, "b")
	answers := make(chan wire.Poll, 1)
	go func() { answers <- s.poll(room, b, "&wait=30s") }()
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	close(s.stopping)
	if err := s.server.Config.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if p := <-answers; p.Count != 0 || p.RoomStatus != "active" || time.Since(start) > 5*time.Second {
		t.Errorf("%+v after %v", p, time.Since(start))
	}
}

// TestClientGone: the cursor stays where it was, and nothing goes on for it.
func TestClientGone(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	a, b := s.participant(room, "a"), s.participant(room, "b")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.try(ctx, "GET", "/rooms/"+room+"/messages?wait=30s&participant="+b, nil); err == nil {
		t.Fatal("answered")
	}
	time.Sleep(200 * time.Millisecond)
	id := s.say(room, a, "after", "").ID
	if p := s.poll(room, b, ""); !slices.Equal(idsOf(p.Messages), []int64{id}) {
		t.Errorf("lost: %+v", p)
	}
}

// TestIdlePolls: they share everything; what each costs is its request.
func TestIdlePolls(t *testing.T) {
	t.Parallel()
	rooms := &quiet{}
	s := &server{rooms: rooms, maxWait: time.Minute}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if _, err := s.await(ctx, store.PollQuery{Advance: true}, time.Minute); err == nil {
				t.Error("answered")
			}
		})
	}
	for rooms.subscribed() < 1000 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	cancel()
	all.Wait()
	if rooms.polled != 1000 || rooms.subscriptions != 0 {
		t.Errorf("%d polls, %d subscriptions left", rooms.polled, rooms.subscriptions)
	}
}

type someRooms = Rooms

// quiet is a store in which nothing happens.
type quiet struct {
	someRooms

	mu                           sync.Mutex
	polled, subscriptions, total int
}

func (q *quiet) Poll(context.Context, store.PollQuery) (store.Poll, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.polled++
	return store.Poll{Status: store.Active}, nil
}

func (q *quiet) Subscribe(uuid.UUID) (<-chan struct{}, func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.subscriptions++
	q.total++
	return make(chan struct{}), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.subscriptions--
	}
}

func (q *quiet) subscribed() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}
