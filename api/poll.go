package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/auth"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store"
)

const advanceParameter = "advance"

// poll answers GET /rooms/{id}/messages.
func (s *server) poll(w http.ResponseWriter, r *http.Request, n *note) error {
	q, wait, malformed := s.pollQuery(r)
	scope := auth.Read
	if q.Advance {
		scope = auth.Write
	}
	if err := auth.Permit(w, r, scope); err != nil {
		return err
	}
	room, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	if malformed != nil {
		return malformed
	}
	q.Room = room
	p, err := s.await(r.Context(), q, wait)
	if err != nil {
		return err
	}
	n.room, n.participant, n.count = room, q.Participant, len(p.Messages)
	s.chat.polls.Inc()
	envelope.JSON(w, http.StatusOK, &wire.Poll{
		Messages: each(p.Messages, wireMessage), Count: len(p.Messages), RoomStatus: string(p.Status), HasMore: p.More,
	})
	return nil
}

// pollQuery reads the parameters of a poll. With an error, Advance still says
// whether the poll asked to move the cursor.
func (s *server) pollQuery(r *http.Request) (q store.PollQuery, wait time.Duration, err error) {
	p, err := parameters(r, "participant", "wait", advanceParameter, "after", "limit")
	if err != nil {
		return q, 0, err
	}
	moves, err := advances(p)
	if err != nil {
		return q, 0, err
	}
	q.Advance = moves && r.Method != http.MethodHead // which changes nothing
	if p.get("participant") == "" {
		return q, 0, envelope.BadField("participant", "is missing", "send the id that joining the room gave")
	}
	if q.Participant, err = parseID("participant", p.get("participant")); err != nil {
		return q, 0, err
	}
	if q.Limit, err = p.limit(); err != nil {
		return q, 0, err
	}
	// The cursor moves over what the store returns, so that it must cut the page.
	q.MaxBytes = maxPageBytes
	after, given, err := p.id("after")
	if err != nil {
		return q, 0, err
	}
	if given {
		q.After = &after
	}
	if r.Method == http.MethodHead { // which has no news to wait for
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
		return 0, envelope.BadField("wait", "is no duration from 0 up", "use such as 30s, or whole seconds")
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
