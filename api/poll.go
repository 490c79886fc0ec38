package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store"
)

const advanceParameter = "advance"

var pollParameters = []string{"participant", "wait", advanceParameter, "after", "limit"}

// poll answers GET /rooms/{id}/messages.
func (s *server) poll(w http.ResponseWriter, r *http.Request, n *note) error {
	room, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	q, wait, err := s.pollQuery(r, room)
	if err != nil {
		return err
	}
	p, err := s.await(r.Context(), q, wait)
	if err != nil {
		return err
	}
	n.room, n.participant, n.count = room, q.Participant, len(p.Messages)
	s.chat.polls.Inc()
	envelope.JSON(w, http.StatusOK, &wire.Poll{
		Messages: wireMessages(p.Messages), Count: len(p.Messages), RoomStatus: string(p.Status), HasMore: p.More,
	})
	return nil
}

func (s *server) pollQuery(r *http.Request, room uuid.UUID) (q store.PollQuery, wait time.Duration, err error) {
	p, err := parameters(r, pollParameters...)
	if err != nil {
		return q, 0, err
	}
	q.Room = room
	if p.get("participant") == "" {
		return q, 0, envelope.BadField("participant", "is missing", "send the id that joining the room gave")
	}
	if q.Participant, err = parseID("participant", p.get("participant")); err != nil {
		return q, 0, err
	}
	if q.Limit, err = p.limit(); err != nil {
		return q, 0, err
	}
	after, given, err := p.id("after")
	if err != nil {
		return q, 0, err
	}
	if given {
		q.After = &after
	}
	if q.Advance, err = advances(p); err != nil {
		return q, 0, err
	}
	if r.Method == http.MethodHead { // which changes nothing and has no news
		q.Advance = false
		return q, 0, nil
	}
	wait, err = s.waitOf(p)
	return q, wait, err
}

// advances reports whether a poll moves the cursor: by default, since existing
// clients rely on it, unless it says where to start itself.
func advances(p params) (bool, error) {
	_, after := p["after"]
	v, given := p[advanceParameter]
	switch {
	case !given:
		return !after, nil
	case v == "false" || v == "0":
		return false, nil
	case v != "true" && v != "1":
		return false, envelope.BadField(advanceParameter, "is neither true nor false", "leave it out for true")
	case after:
		return false, envelope.BadField(advanceParameter, "cannot be true with after", "leave one of them out, and acknowledge what was dealt with")
	}
	return true, nil
}

// waitOf is how long a poll waits for news: a duration or whole seconds, at
// most what the service allows.
func (s *server) waitOf(p params) (time.Duration, error) {
	v, ok := p["wait"]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if seconds, e := strconv.ParseInt(v, 10, 64); e == nil {
		// In two steps, so that many seconds do not overflow.
		d, err = time.Duration(min(max(seconds, -1), int64(s.maxWait/time.Second)+1))*time.Second, nil
	}
	if err != nil || d < 0 || strings.HasPrefix(v, "-") {
		return 0, envelope.BadField("wait", "is no duration", "use such as 30s, or whole seconds")
	}
	return min(d, s.maxWait), nil
}

// await polls until there is something to say: a message, an archived room,
// the end of the wait or of the service. The answer is always of a poll that
// began after that. Nothing is asked of the store for a client that is gone.
func (s *server) await(ctx context.Context, q store.PollQuery, wait time.Duration) (store.Poll, error) {
	if wait <= 0 {
		return s.rooms.Poll(ctx, q)
	}
	news, unsubscribe := s.rooms.Subscribe(q.Room)
	defer unsubscribe()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for last := false; ; {
		if err := ctx.Err(); err != nil {
			return store.Poll{}, err
		}
		p, err := s.rooms.Poll(ctx, q)
		if err != nil || last || len(p.Messages) > 0 || p.Status == store.Archived {
			return p, err
		}
		select {
		case <-news:
		case <-timer.C:
			last = true
		case <-s.stopping:
			last = true
		case <-ctx.Done():
		}
	}
}
