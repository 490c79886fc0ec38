package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// channel carries the ids of rooms that have news, each after the id of the
// process that says so.
const channel = "tatara_ledger_rooms"

// hub wakes those who wait for news of a room: at once in this process, and by
// NOTIFY in the others. A NOTIFY within the transaction of a message would make
// all commits of the database wait for each other, so it follows the commit,
// for many rooms at once. If the process dies between the two, those who wait
// elsewhere see the news at the end of their wait.
type hub struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	self string
	// silence is how long the connection that listens may say nothing before
	// it is asked whether it still exists.
	silence time.Duration

	mu      sync.Mutex
	waiting map[uuid.UUID]map[chan struct{}]struct{}
	news    map[uuid.UUID]struct{} // to announce
	wake    chan struct{}          // something is in news
}

func newHub(pool *pgxpool.Pool, log *slog.Logger) *hub {
	return &hub{
		pool: pool, log: log, self: uuid.NewString(), silence: 30 * time.Second,
		waiting: map[uuid.UUID]map[chan struct{}]struct{}{},
		news:    map[uuid.UUID]struct{}{},
		wake:    make(chan struct{}, 1),
	}
}

// Subscribe returns a channel that receives when the room has news, on whatever
// replica it was written. Subscribe first, then poll. stop gives it back.
func (s *Store) Subscribe(room uuid.UUID) (news <-chan struct{}, stop func()) {
	h, c := s.hub, make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[room] == nil {
		h.waiting[room] = map[chan struct{}]struct{}{}
	}
	h.waiting[room][c] = struct{}{}
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting[room], c)
		if len(h.waiting[room]) == 0 {
			delete(h.waiting, room)
		}
	}
}

// tell wakes those who wait here and has the others told.
func (h *hub) tell(rooms ...uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, room := range rooms {
		h.wakeRoom(room)
		h.news[room] = struct{}{}
	}
	signal(h.wake)
}

// wakeRoom needs the lock.
func (h *hub) wakeRoom(room uuid.UUID) {
	for c := range h.waiting[room] {
		signal(c)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has a signal that it has not seen yet
	}
}

// answerWithin bounds what the hub asks of one connection, which may have died
// unnoticed.
const answerWithin = 3 * time.Second

// announce tells the other processes, until ctx ends.
func (h *hub) announce(ctx context.Context) error {
	policy := backoff.NewExponentialBackOff()
	policy.MaxInterval = 5 * time.Second
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.wake:
		}
		rooms := h.takeNews()
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			ctx, cancel := context.WithTimeout(ctx, answerWithin)
			defer cancel()
			_, err := h.pool.Exec(ctx, "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload", channel, rooms)
			return struct{}{}, err
		}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(20*time.Second)) // a wait is not longer either
		if err != nil && ctx.Err() == nil {
			h.log.Warn("other replicas were not told of news; their long polls end late", "rooms", len(rooms), "error", err)
		}
	}
}

func (h *hub) takeNews() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	rooms := make([]string, 0, len(h.news))
	for room := range h.news {
		rooms = append(rooms, h.self+" "+room.String())
	}
	clear(h.news)
	slices.Sort(rooms)
	return rooms
}

// listen hears the other processes through one connection, until ctx ends.
func (h *hub) listen(ctx context.Context) error {
	policy := backoff.NewExponentialBackOff()
	policy.MaxInterval = 5 * time.Second
	warned := false
	for {
		err := h.hear(ctx, func() {
			policy.Reset()
			if warned {
				h.log.Info("news of other replicas are heard again")
			}
			warned = false
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop is no failure
		}
		if !warned {
			warned = true
			h.log.Warn("news of other replicas are not heard; long polls may end late", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(policy.NextBackOff()):
		}
	}
}

// hear listens on a connection of its own until that fails.
func (h *hub) hear(ctx context.Context, connected func()) error {
	conn, err := pgx.ConnectConfig(ctx, h.pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it only said goodbye
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	connected()
	h.wakeAll() // whatever was said meanwhile was not heard
	for {
		waiting, cancel := context.WithTimeout(ctx, h.silence)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			asking, cancel := context.WithTimeout(ctx, answerWithin)
			err = conn.Ping(asking)
			cancel()
			if err == nil {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("waiting for news: %w", err)
		}
		from, id, _ := strings.Cut(n.Payload, " ")
		room, err := uuid.Parse(id)
		if err != nil || from == h.self {
			continue
		}
		h.mu.Lock()
		h.wakeRoom(room)
		h.mu.Unlock()
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for room := range h.waiting {
		h.wakeRoom(room)
	}
}
