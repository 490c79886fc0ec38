package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

const (
	senders  = 16
	pollers  = 16 // of each kind
	messages = 200
)

// meeting is one room in which some send and others read, over two services.
type meeting struct {
	services []*service
	clients  []*client.Client // one for each service
	room     *wire.Room
	members  []*wire.Participant // the senders first
}

// target is the member that a sender's message is for, or -1.
func (m *meeting) target(sender, message int) int {
	if message%4 != 0 {
		return -1
	}
	return (sender*7 + message) % len(m.members)
}

// visible is how many messages a member sees.
func (m *meeting) visible(member int) (n int) {
	for s := range senders {
		for i := range messages {
			if to := m.target(s, i); to < 0 || to == member || s == member {
				n++
			}
		}
	}
	return n
}

// speak sends a member's messages, to one service and the other.
func (m *meeting) speak(t *testing.T, sender int) error {
	for i := range messages {
		n := wire.NewMessage{ParticipantID: m.members[sender].ID, Body: fmt.Sprintf("%d of %d", i, sender)}
		if to := m.target(sender, i); to >= 0 && i%8 == 0 {
			n.Target = m.members[to].Name
		} else if to >= 0 {
			n.Target = m.members[to].ID
		}
		if _, err := m.clients[(sender+i)%2].Send(t.Context(), m.room.ID, n); err != nil {
			return err
		}
	}
	return nil
}

// wait is that of a long poll which nothing is expected to outlast.
const wait = 20 * time.Second

// listen takes what polls give, which move the cursor.
func (m *meeting) listen(t *testing.T, member, want int) (got []wire.Message, err error) {
	for n := 0; len(got) < want; n++ {
		p, err := m.clients[n%2].Poll(t.Context(), m.room.ID, m.members[member].ID, client.PollOptions{Wait: wait})
		if err != nil {
			return got, err
		}
		if p.Count == 0 {
			return got, fmt.Errorf("%s waited in vain after %d of %d messages", m.members[member].Name, len(got), want)
		}
		got = append(got, p.Messages...)
	}
	return got, nil
}

// study reads without moving the cursor and acknowledges a part of it, which
// is all that must not come again.
func (m *meeting) study(t *testing.T, member, want int) (got []wire.Message, err error) {
	rng := rand.New(rand.NewPCG(uint64(member), 0xac4))
	for n := 0; len(got) < want; n++ {
		c := m.clients[rng.IntN(2)]
		p, err := c.Poll(t.Context(), m.room.ID, m.members[member].ID, client.PollOptions{Wait: wait, Peek: true})
		if err != nil {
			return got, err
		}
		if p.Count == 0 {
			return got, fmt.Errorf("%s waited in vain after %d of %d messages", m.members[member].Name, len(got), want)
		}
		done := p.Messages
		if n%5 == 0 {
			done = done[:rng.IntN(len(done))+1]
		}
		if err := c.Ack(t.Context(), m.room.ID, m.members[member].ID, done[len(done)-1].ID); err != nil {
			return got, err
		}
		got = append(got, done...)
	}
	return got, nil
}

// stumble is study by a reader who is killed now and then in the middle of an
// answer, or after one and before it acknowledges.
func (m *meeting) stumble(t *testing.T, member, want int) (got []wire.Message, err error) {
	rng := rand.New(rand.NewPCG(uint64(member), 0xdead))
	var again []wire.Message // what was read and not acknowledged
	for len(got) < want {
		s := rng.IntN(2)
		path := "/rooms/" + m.room.ID + "/messages?advance=false&wait=20s&participant=" + m.members[member].ID
		if rng.IntN(3) == 0 {
			if err := hangUp(m.services[s].api, path, rng.IntN(2000)); err != nil {
				return got, err
			}
		}
		p, err := m.clients[s].Poll(t.Context(), m.room.ID, m.members[member].ID, client.PollOptions{Wait: wait, Peek: true})
		if err != nil {
			return got, err
		}
		if n := min(len(again), p.Count); p.Count == 0 || !slices.EqualFunc(again[:n], p.Messages[:n], sameMessage) {
			return got, fmt.Errorf("%s was sent other messages than those not acknowledged: %+v, then %+v", m.members[member].Name, again, p.Messages)
		}
		if rng.IntN(3) == 0 {
			again = p.Messages
			continue
		}
		again = nil
		if err := m.clients[1-s].Ack(t.Context(), m.room.ID, m.members[member].ID, p.Messages[p.Count-1].ID); err != nil {
			return got, err
		}
		got = append(got, p.Messages...)
	}
	return got, nil
}

func sameMessage(a, b wire.Message) bool { return a.ID == b.ID && a.Body == b.Body }

// TestRoom: 16 send and three times 16 read in one room, through two services.
// Every member gets every message that it may see once and in order: those that
// let polls move the cursor, those that acknowledge, and those that do so but
// are killed in the middle of it again and again.
func TestRoom(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	m := &meeting{services: []*service{e.serve(t, e.clickHouse), e.serve(t, e.clickHouse)}}
	w := newWitness(t)
	for _, s := range m.services {
		m.clients = append(m.clients, s.chat(t, w))
	}
	reads := []func(*testing.T, int, int) ([]wire.Message, error){m.listen, m.study, m.stumble}
	names := make([]string, 0, len(reads)*pollers)
	for i := range len(reads) * pollers {
		names = append(names, "member-"+strconv.Itoa(i))
	}
	m.room, m.members = room(t, m.clients[0], names...)

	got := make([][]wire.Message, len(m.members))
	begin := time.Now()
	var group errgroup.Group
	for i := range m.members {
		group.Go(func() (err error) {
			got[i], err = reads[i/pollers](t, i, m.visible(i))
			return err
		})
	}
	for i := range senders {
		group.Go(func() error { return m.speak(t, i) })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d messages to %d members in %s", senders*messages, len(m.members), time.Since(begin))

	all := logOf(t.Context(), t, m.clients[0], m.room.ID)
	if len(all) != senders*messages {
		t.Errorf("the log has %d messages, not %d", len(all), senders*messages)
	}
	for i, p := range m.members {
		var want []wire.Message
		for _, msg := range all {
			if msg.TargetID == nil || *msg.TargetID == p.ID || *msg.AuthorID == p.ID {
				want = append(want, msg)
			}
		}
		if !slices.EqualFunc(want, got[i], sameMessage) {
			t.Errorf("%s got %d messages, not the %d of the log that it may see", p.Name, len(got[i]), len(want))
		}
		// And nothing more.
		rest, err := m.clients[i%2].Poll(t.Context(), m.room.ID, p.ID, client.PollOptions{})
		if err != nil || rest.Count > 0 || rest.HasMore {
			t.Errorf("%s gets %+v after everything: %v", p.Name, rest, err)
		}
	}
	w.check(t, time.Minute)
	for _, s := range m.services {
		s.stop(t)
	}
}
