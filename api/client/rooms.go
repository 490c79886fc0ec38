package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// RoomQuery selects rooms, newest first.
type RoomQuery struct {
	Status string // active or archived; empty: both
	Limit  int    // size of a page; zero: the service's default
	After  string // Next of the page before; empty: the first page
}

// CreateRoom opens a room.
func (c *Client) CreateRoom(ctx context.Context, n wire.NewRoom) (*wire.Room, error) {
	var out wire.Room
	if err := c.do(ctx, request{method: http.MethodPost, url: c.chat + "/rooms", body: n, create: true}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Rooms is one page of rooms.
func (c *Client) Rooms(ctx context.Context, q RoomQuery) (*wire.Rooms, error) {
	v := url.Values{}
	set(v, "status", q.Status)
	setPage(v, q.Limit, q.After)
	var out wire.Rooms
	if err := c.do(ctx, request{method: http.MethodGet, url: c.chat + "/rooms", query: v}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// AllRooms are the rooms of all pages, from q.After on. The first error ends
// them.
func (c *Client) AllRooms(ctx context.Context, q RoomQuery) iter.Seq2[wire.Room, error] {
	return pages(q.After, q.Limit, func(after string, limit int) ([]wire.Room, *string, error) {
		page, err := c.Rooms(ctx, RoomQuery{Status: q.Status, Limit: limit, After: after})
		if err != nil {
			return nil, nil, err
		}
		return page.Rooms, page.Next, nil
	})
}

// Room is a room and its participants.
func (c *Client) Room(ctx context.Context, id string) (*wire.RoomDetail, error) {
	var out wire.RoomDetail
	if err := c.room(ctx, id, request{method: http.MethodGet}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// ArchiveRoom closes a room: nothing is written to it any more.
func (c *Client) ArchiveRoom(ctx context.Context, id string) error {
	return c.room(ctx, id, request{method: http.MethodDelete}, nil)
}

// room calls a route of one room; r.url is what follows its id.
func (c *Client) room(ctx context.Context, id string, r request, into any) error {
	if id == "" {
		return missing("the room's id")
	}
	r.url = c.chat + "/rooms/" + segment(id) + r.url
	return c.do(ctx, r, into)
}

// Join adds a participant to a room. It sees what is written from then on.
func (c *Client) Join(ctx context.Context, room string, n wire.NewParticipant) (*wire.Participant, error) {
	var out wire.Participant
	if err := c.room(ctx, room, request{method: http.MethodPost, url: "/participants", body: n, create: true}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Participants are those of a room, in the order in which they joined, those
// that left included.
func (c *Client) Participants(ctx context.Context, room string) ([]wire.Participant, error) {
	var out wire.Participants
	err := c.room(ctx, room, request{method: http.MethodGet, url: "/participants"}, &out)
	return out.Participants, err
}

// Leave removes a participant from a room.
func (c *Client) Leave(ctx context.Context, room, participant string) error {
	if participant == "" {
		return missing("the participant's id")
	}
	return c.room(ctx, room, request{method: http.MethodDelete, url: "/participants/" + segment(participant)}, nil)
}

// Ack says that a participant has dealt with the messages up to an id. The
// cursor only moves forward.
func (c *Client) Ack(ctx context.Context, room, participant string, lastSeenID int64) error {
	if participant == "" {
		return missing("the participant's id")
	}
	return c.room(ctx, room, request{
		method: http.MethodPost, url: "/participants/" + segment(participant) + "/ack", body: wire.Ack{LastSeenID: lastSeenID},
	}, nil)
}

// Send writes a message.
func (c *Client) Send(ctx context.Context, room string, n wire.NewMessage) (*wire.Message, error) {
	var out wire.Message
	if err := c.room(ctx, room, request{method: http.MethodPost, url: "/messages", body: n, create: true}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// PollOptions say how to poll. The zero value takes what is there and moves
// the cursor over it.
type PollOptions struct {
	// Wait is how long to wait for a message if there is none; the service has a
	// maximum.
	Wait time.Duration
	// Peek leaves the cursor where it is: acknowledge with [Client.Ack].
	Peek bool
	// After reads from this id on instead of from the cursor, which stays where
	// it is; nil: from the cursor.
	After *int64
	Limit int // zero: the service's default
}

// Poll asks for the messages of a participant. If it moves the cursor, it is
// not repeated once it may have reached the service; after an error the
// messages that were lost with the answer are in the log.
func (c *Client) Poll(ctx context.Context, room, participant string, o PollOptions) (*wire.Poll, error) {
	if participant == "" {
		return nil, missing("the participant's id")
	}
	v := url.Values{"participant": {participant}}
	if o.Wait > 0 {
		v.Set("wait", o.Wait.String())
	}
	peek := o.Peek || o.After != nil
	if peek {
		v.Set("advance", "false")
	}
	if o.After != nil {
		v.Set("after", strconv.FormatInt(*o.After, 10))
	}
	setPage(v, o.Limit, "")
	var out wire.Poll
	err := c.room(ctx, room, request{method: http.MethodGet, url: "/messages", query: v, wait: max(0, o.Wait), once: !peek}, &out)
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// Log is every message of a room after an id, in order, a page of them. A
// limit of zero is the service's default.
func (c *Client) Log(ctx context.Context, room string, after int64, limit int) (*wire.Log, error) {
	v := url.Values{}
	if after > 0 {
		v.Set("after", strconv.FormatInt(after, 10))
	}
	setPage(v, limit, "")
	return c.log(ctx, room, v)
}

func (c *Client) log(ctx context.Context, room string, v url.Values) (*wire.Log, error) {
	var out wire.Log
	if err := c.room(ctx, room, request{method: http.MethodGet, url: "/log", query: v}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// LogTail are the last n messages of a room, in order; fewer if there are no
// more. It holds them in memory.
func (c *Client) LogTail(ctx context.Context, room string, n int) ([]wire.Message, error) {
	if n < 1 {
		return nil, nil
	}
	var tail []wire.Message // the last first
	all := pages(0, min(n, pageSize), func(before int64, limit int) ([]wire.Message, *int64, error) {
		v := url.Values{"tail": {strconv.Itoa(limit)}}
		if before > 0 {
			v.Set("before", strconv.FormatInt(before, 10))
		}
		page, err := c.log(ctx, room, v)
		if err != nil || len(page.Messages) == 0 {
			return nil, nil, err
		}
		first := page.Messages[0].ID
		slices.Reverse(page.Messages)
		return page.Messages, &first, nil
	})
	for m, err := range all {
		if err != nil {
			return nil, err
		}
		if tail = append(tail, m); len(tail) == n {
			break
		}
	}
	slices.Reverse(tail)
	return tail, nil
}

// AllLog are the messages of all pages of the log. The first error ends them.
func (c *Client) AllLog(ctx context.Context, room string, after int64) iter.Seq2[wire.Message, error] {
	return pages(after, pageSize, func(after int64, limit int) ([]wire.Message, *int64, error) {
		page, err := c.Log(ctx, room, after, limit)
		if err != nil {
			return nil, nil, err
		}
		return page.Messages, page.Next, nil
	})
}

// idleRounds is how many rounds without a message [Client.Follow] waits before
// it asks whether the room is archived.
const idleRounds = 5

// Follow are the messages of a room after an id, as they come. It reads the
// log every interval, so that it needs no participant and moves nobody's
// cursor. It ends with ctx, and when the room is archived and its log read.
//
// An outage is an error, and the next message after it comes all the same if
// the caller goes on. Any other error is the last.
func (c *Client) Follow(ctx context.Context, room string, after int64, interval time.Duration) iter.Seq2[wire.Message, error] {
	return func(yield func(wire.Message, error) bool) {
		for idle := 1; ctx.Err() == nil; idle++ {
			last := after
			archived, err := c.archived(ctx, room, idle)
			for m, e := range c.AllLog(ctx, room, after) {
				if err = errors.Join(err, e); e != nil {
					break
				}
				idle, after = 0, m.ID
				if !yield(m, nil) {
					return
				}
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(wire.Message{}, err) || !passing(err) {
					return
				}
			case archived && last == after:
				return
			}
			sleep(ctx, interval)
		}
	}
}

// archived asks for the room's state, now and then. It is asked before the log
// is read: what is written before a room is archived is then in the log.
func (c *Client) archived(ctx context.Context, room string, idle int) (bool, error) {
	if idle%idleRounds != 0 {
		return false, nil
	}
	r, err := c.Room(ctx, room)
	return err == nil && r.Room.Status == "archived", err
}

// passing reports whether an error is one of an outage.
func passing(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRateLimited)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
