package e2e

import (
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// idlers is how many long polls wait on one service while it is stopped.
const idlers = 100

// TestLongPolls: a poll that waits is woken by a message that another service
// takes, and by the end of its room. When its service stops, it is answered.
func TestLongPolls(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	a, b := e.serve(t, e.clickHouse), e.serve(t, e.clickHouse)
	w := newWitness(t)
	here, there := a.chat(t, w), b.bare(t, w, nil)
	r, members := room(t, here, "speaker", "listener")
	speaker, listener := members[0], members[1]

	poll := func() (*wire.Poll, error) {
		return there.Poll(t.Context(), r.ID, listener.ID, client.PollOptions{Wait: 25 * time.Second})
	}
	var slowest time.Duration
	for i := range 20 {
		var sent time.Time
		var group errgroup.Group
		group.Go(func() error {
			time.Sleep(50 * time.Millisecond) // the poll waits by then, mostly
			sent = time.Now()
			_, err := here.Send(t.Context(), r.ID, wire.NewMessage{ParticipantID: speaker.ID, Body: strconv.Itoa(i)})
			return err
		})
		got, err := poll()
		heard := time.Now()
		if e := group.Wait(); err != nil || e != nil {
			t.Fatal(err, e)
		}
		if got.Count != 1 || got.Messages[0].Body != strconv.Itoa(i) || got.RoomStatus != "active" {
			t.Fatalf("the poll for message %d: %+v", i, got)
		}
		slowest = max(slowest, heard.Sub(sent))
	}
	t.Logf("the slowest was heard after %s", slowest)
	if slowest > 15*time.Second {
		t.Errorf("a message was heard after %s", slowest)
	}

	// A message for somebody else wakes nobody.
	begin := time.Now()
	var group errgroup.Group
	group.Go(func() error {
		time.Sleep(200 * time.Millisecond)
		_, err := here.Send(t.Context(), r.ID, wire.NewMessage{ParticipantID: speaker.ID, Target: speaker.Name, Body: "to myself"})
		return err
	})
	got, err := there.Poll(t.Context(), r.ID, listener.ID, client.PollOptions{Wait: 2 * time.Second})
	if took := time.Since(begin); err != nil || got.Count != 0 || got.HasMore || took < 2*time.Second {
		t.Errorf("a poll with nothing to hear: %+v, %v, after %s", got, err, took)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}

	begin = time.Now()
	group.Go(func() error {
		time.Sleep(200 * time.Millisecond)
		return here.ArchiveRoom(t.Context(), r.ID)
	})
	got, err = poll()
	if took := time.Since(begin); err != nil || got.RoomStatus != "archived" || took > 20*time.Second {
		t.Errorf("a poll whose room ends: %+v, %v, after %s", got, err, took)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	stopUnderPolls(t, b, there)
	a.stop(t)
}

// stopUnderPolls stops a service on which many wait.
func stopUnderPolls(t *testing.T, s *service, c *client.Client) {
	t.Helper()
	r, members := room(t, c, "waiting")
	before := s.metric(t, "go_goroutines")
	var group errgroup.Group
	for range idlers {
		group.Go(func() error {
			// Without moving the cursor, so that they are not in each other's way.
			p, err := c.Poll(t.Context(), r.ID, members[0].ID, client.PollOptions{Wait: 30 * time.Second, Peek: true})
			if err == nil && (p.Count != 0 || p.RoomStatus != "active") {
				t.Errorf("a poll whose service stops: %+v", p)
			}
			return err
		})
	}
	until(t, "all polls wait", func() bool { return s.metric(t, "go_goroutines") >= before+idlers })
	begin := time.Now()
	s.stop(t)
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
