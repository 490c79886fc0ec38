package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// oldRooms is more than one transaction of the sweeper takes.
const oldRooms = 230

// startTogether starts services at the same moment and waits for all of them.
func startTogether(t *testing.T, services ...*service) {
	t.Helper()
	for _, s := range services {
		s.process = start(t, s.args...)
	}
	for _, s := range services {
		s.awaitReady(t)
	}
}

// TestReplicas: two services on one pair of engines migrate at once, serve side
// by side, repeat each other's creates, and sweep at once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	a, b := e.newService(t, e.clickHouse), e.newService(t, e.clickHouse)
	startTogether(t, a, b)
	migrations := 0
	for _, s := range []*service{a, b} {
		migrations += strings.Count(s.stderr.String(), "migrated a schema")
	}
	if migrations != 2 { // of Postgres and of ClickHouse
		t.Errorf("%d migrations are logged, not 2", migrations)
	}

	l := startTalk(t, a, b)
	l.more(t, 300)
	l.finish(t, grafana(t, e.clickHouse, e.dir))
	w := newWitness(t)
	t.Run("creates", func(t *testing.T) { createOnBoth(t, a, b, w) })
	sent := series(t, a, "chat_messages_total", `kind="message"`) + series(t, b, "chat_messages_total", `kind="message"`)
	if want := float64(len(l.sent) + 1); sent != want {
		t.Errorf("%v messages are counted, not %v", sent, want)
	}
	if written := series(t, a, "chat_handoffs_total", `op="write"`) + series(t, b, "chat_handoffs_total", `op="write"`); written != float64(l.writes()+1) {
		t.Errorf("%v writes of handoffs are counted, not %d", written, l.writes()+1)
	}
	sweepOnBoth(t, e, a, b, w)
	a.stop(t)
	b.stop(t)
}

// createOnBoth: a create that reaches both services at once happens once.
func createOnBoth(t *testing.T, a, b *service, w *witness) {
	r, members := room(t, a.chat(t, w), "writer")
	for path, body := range map[string]string{
		"/rooms/" + r.ID + "/messages": `{"participant_id":"` + members[0].ID + `","body":"once"}`,
		"/handoffs":                    `{"handoff_key":"once","project":"both","body":"once"}`,
	} {
		answers := make([]string, 8)
		var group errgroup.Group
		for i := range answers {
			group.Go(func() error {
				at := []*service{a, b}[i%2]
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at.api+path, strings.NewReader(body))
				if err != nil {
					return err
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Idempotency-Key", "the same")
				answers[i], err = w.text(req)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, answer := range answers[1:] {
			if diff := cmp.Diff(answers[0], answer); diff != "" {
				t.Errorf("%s on both:\n%s", path, diff)
			}
		}
	}
	if n := len(logOf(t.Context(), t, b.chat(t, w), r.ID)); n != 1 {
		t.Errorf("%d messages, not one", n)
	}
	if h, err := b.chat(t, w).Handoff(t.Context(), "once"); err != nil || h.Revision != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

// sweepOnBoth: rooms that are too old when both services start are archived
// once each.
func sweepOnBoth(t *testing.T, e *engines, a, b *service, w *witness) {
	t.Helper()
	c := a.chat(t, w)
	var group errgroup.Group
	group.SetLimit(8)
	for range oldRooms {
		group.Go(func() error {
			_, err := c.CreateRoom(t.Context(), wire.NewRoom{Name: "old"})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	a.stop(t)
	b.stop(t)
	const ttl = time.Second
	time.Sleep(ttl)
	for _, s := range []*service{a, b} {
		s.args = append(s.args, "--room-ttl", ttl.String())
	}
	startTogether(t, a, b)
	archived := func() float64 {
		return series(t, a, "chat_rooms_total", `op="ttl_archived"`) + series(t, b, "chat_rooms_total", `op="ttl_archived"`)
	}
	until(t, "no room is active", func() bool {
		page, err := b.chat(t, w).Rooms(t.Context(), client.RoomQuery{Status: "active", Limit: 1})
		return err == nil && page.Count == 0
	})
	rooms := 0
	for r, err := range c.AllRooms(t.Context(), client.RoomQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		rooms++
		notices := 0
		for _, m := range logOf(t.Context(), t, c, r.ID) {
			if m.Kind == "system" && m.AuthorID == nil {
				notices++
			}
		}
		if r.Status != "archived" || r.ArchivedAt == nil || notices != 1 {
			t.Errorf("a room that is too old has %d notices: %+v", notices, r)
		}
	}
	until(t, "the archived are counted", func() bool { return archived() >= float64(rooms) })
	if n := archived(); n != float64(rooms) || rooms < oldRooms {
		t.Errorf("of %d rooms %v are counted as archived", rooms, n)
	}
	ledger := grafana(t, e.clickHouse, e.dir)
	until(t, "the ledger knows", func() bool { return events(t, ledger)["room_expired"] >= rooms })
	if n := events(t, ledger)["room_expired"]; n != rooms {
		t.Errorf("the ledger has %d events of %d rooms", n, rooms)
	}
	// What is archived takes nothing more.
	page, err := c.Rooms(t.Context(), client.RoomQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	ask(t, w, http.MethodPost, "http://"+a.api+"/rooms/"+page.Rooms[0].ID+"/participants", []byte(`{"name":"late"}`), http.StatusConflict)
}
