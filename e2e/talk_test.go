package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

const (
	talkers    = 4
	scribes    = 2
	maxAnswer  = 30 * time.Second // of a request: the store is tried for 20 s
	talkerRest = 2 * time.Millisecond
)

// talk is a load of messages, handoffs and rooms whose clients repeat a
// request, under its Idempotency-Key, until it is answered. It knows what must
// be there in the end.
type talk struct {
	clients []*client.Client
	witness *witness
	group   errgroup.Group // of those who write
	ear     errgroup.Group // of the one who reads
	ending  atomic.Bool
	silent  atomic.Bool // nobody writes any more
	acked   atomic.Int64

	room     *wire.Room
	members  []*wire.Participant // the last one listens
	heard    []wire.Message
	rooms    []string // names of those opened meanwhile
	mu       sync.Mutex
	sent     map[int64]string // bodies of messages by id
	revision map[string]int64 // of handoffs by key, and their
	body     map[string]string
}

// startTalk begins a load on services.
func startTalk(t *testing.T, services ...*service) *talk {
	t.Helper()
	l := &talk{witness: newWitness(t), sent: map[int64]string{}, revision: map[string]int64{}, body: map[string]string{}}
	for _, s := range services {
		l.clients = append(l.clients, s.chat(t, l.witness))
	}
	names := []string{}
	for i := range talkers + 1 {
		names = append(names, "talker-"+strconv.Itoa(i))
	}
	l.room, l.members = room(t, l.clients[0], names...)
	t.Cleanup(func() {
		l.ending.Store(true)
		_ = l.group.Wait()
		l.silent.Store(true)
		_ = l.ear.Wait()
	})
	for i := range talkers {
		l.group.Go(func() error { return l.repeat(t, i, l.say) })
	}
	for i := range scribes {
		l.group.Go(func() error { return l.repeat(t, i, l.write) })
	}
	l.group.Go(func() error { return l.repeat(t, 0, l.open) })
	l.ear.Go(func() error { return l.listen(t) })
	return l
}

// repeat does one thing after the other until the load is to end.
func (l *talk) repeat(t *testing.T, who int, do func(ctx context.Context, c *client.Client, who, n int) error) error {
	for n := 0; !l.ending.Load(); n++ {
		if err := do(t.Context(), l.clients[(who+n)%len(l.clients)], who, n); err != nil {
			t.Errorf("client %d, request %d: %v", who, n, err)
			return err
		}
		l.acked.Add(1)
		time.Sleep(talkerRest)
	}
	return nil
}

func (l *talk) say(ctx context.Context, c *client.Client, who, n int) error {
	m, err := c.Send(ctx, l.room.ID, wire.NewMessage{ParticipantID: l.members[who].ID, Body: fmt.Sprintf("%d of %d", n, who)})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if earlier, ok := l.sent[m.ID]; ok {
		return fmt.Errorf("message %d is %q and was %q", m.ID, m.Body, earlier)
	}
	l.sent[m.ID] = m.Body
	return nil
}

// write writes the next state of a handoff, on the condition that it follows
// the last.
func (l *talk) write(ctx context.Context, c *client.Client, who, n int) error {
	key := "talk/" + strconv.Itoa(who)
	l.mu.Lock()
	last := l.revision[key]
	l.mu.Unlock()
	condition := client.Precondition{IfAbsent: true}
	if last > 0 {
		condition = client.Precondition{IfMatch: strconv.Quote(strconv.FormatInt(last, 10))}
	}
	h, err := c.PutHandoff(ctx, wire.HandoffWrite{HandoffKey: key, Project: "talk", Body: "state " + strconv.Itoa(n)}, condition)
	if err != nil {
		return err
	}
	if h.Revision != last+1 {
		return fmt.Errorf("revision %d follows %d", h.Revision, last)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision[key], l.body[key] = h.Revision, h.Body
	return nil
}

func (l *talk) open(ctx context.Context, c *client.Client, _, n int) error {
	r, err := c.CreateRoom(ctx, wire.NewRoom{Name: l.room.Name + " " + strconv.Itoa(n)})
	if err == nil {
		l.rooms = append(l.rooms, r.Name)
	}
	return err
}

// listen reads the room and acknowledges, until it has heard everything.
func (l *talk) listen(t *testing.T) error {
	me := l.members[talkers].ID
	for n := 0; ; n++ {
		last := l.silent.Load()
		c := l.clients[n%len(l.clients)]
		p, err := c.Poll(t.Context(), l.room.ID, me, client.PollOptions{Peek: true, Wait: time.Second})
		if err == nil && p.Count > 0 {
			err = c.Ack(t.Context(), l.room.ID, me, p.Messages[p.Count-1].ID)
			l.heard = append(l.heard, p.Messages...)
		}
		if err != nil {
			t.Errorf("the listener: %v", err)
			return err
		}
		if last && p.Count == 0 {
			return nil
		}
	}
}

// more waits until so many more requests were acknowledged.
func (l *talk) more(t *testing.T, requests int64) {
	t.Helper()
	requests += l.acked.Load()
	until(t, "more is acknowledged", func() bool { return t.Failed() || l.acked.Load() >= requests })
}

// finish ends the load, and fails the test unless everything that was
// acknowledged is there, once: in Postgres, with the reader, and in the ledger.
func (l *talk) finish(t *testing.T, ledger clickHouse) {
	t.Helper()
	l.ending.Store(true)
	err := l.group.Wait()
	l.silent.Store(true)
	if err := errors.Join(err, l.ear.Wait()); err != nil {
		t.Fatal(err)
	}
	l.witness.check(t, maxAnswer)
	c := l.clients[0]
	all := logOf(t.Context(), t, c, l.room.ID)
	got := map[int64]string{}
	for _, m := range all {
		got[m.ID] = m.Body
	}
	if diff := cmp.Diff(l.sent, got); diff != "" || len(all) != len(got) {
		t.Errorf("messages (-acknowledged +there):\n%s", diff)
	}
	if !slices.EqualFunc(all, l.heard, sameMessage) {
		t.Errorf("of %d messages the reader heard %d, or in another order", len(all), len(l.heard))
	}
	for key, revision := range l.revision {
		h, err := c.Handoff(t.Context(), key)
		if err != nil || h.Revision != revision || h.Body != l.body[key] {
			t.Errorf("%s must be %q of revision %d: %+v, %v", key, l.body[key], revision, h, err)
		}
	}
	l.checkRooms(t)
	l.checkEvents(t, ledger)
	t.Logf("%d messages, handoffs %v, %d rooms", len(all), l.revision, len(l.rooms))
}

func (l *talk) checkRooms(t *testing.T) {
	t.Helper()
	var names []string
	for r, err := range l.clients[0].AllRooms(t.Context(), client.RoomQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.Name, l.room.Name+" ") {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(l.rooms)
	if diff := cmp.Diff(l.rooms, names); diff != "" {
		t.Errorf("rooms (-acknowledged +there):\n%s", diff)
	}
}

// checkEvents waits until the ledger has an event of everything, and fails the
// test if it has one twice or one of what was never acknowledged.
func (l *talk) checkEvents(t *testing.T, ledger clickHouse) {
	t.Helper()
	want := map[string]int{
		"message_sent": len(l.sent), "handoff_written": l.writes(),
		"room_created": len(l.rooms) + 1, "participant_joined": len(l.members),
	}
	var got map[string]int
	until(t, "the events are in the ledger", func() bool {
		got = events(t, ledger)
		for action, n := range want {
			if got[action] < n {
				return false
			}
		}
		return true
	})
	delete(got, "handoff_read") // which is best effort
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-acknowledged +ledger):\n%s", diff)
	}
	twice := ledger.must(t, "SELECT count(), uniqExact(id), countIf(action = 'message_sent'), uniqExactIf(message_id, action = 'message_sent'), "+
		"countIf(action = 'handoff_written'), uniqExactIf((handoff_key, revision), action = 'handoff_written') FROM chat_events")
	n := strings.Fields(twice)
	if len(n) != 6 || n[0] != n[1] || n[2] != n[3] || n[4] != n[5] {
		t.Errorf("events, messages, handoffs: all and different ones: %q", twice)
	}
}

// writes is how many writes of handoffs were acknowledged.
func (l *talk) writes() (n int) {
	for _, revision := range l.revision {
		n += int(revision)
	}
	return n
}

// events are the numbers of events in the published view, by action.
func events(t *testing.T, ledger clickHouse) map[string]int {
	t.Helper()
	out := map[string]int{}
	for line := range strings.Lines(ledger.must(t, "SELECT action, count() FROM chat_events GROUP BY action")) {
		action, n, _ := strings.Cut(strings.TrimSpace(line), "\t")
		v, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		out[action] = v
	}
	return out
}
