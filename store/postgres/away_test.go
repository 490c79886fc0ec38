package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// impatient makes a store give up soon.
func impatient(s *Store) *Store {
	s.cfg.RetryFor = 500 * time.Millisecond
	return s
}

func TestPostgresIsAway(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "postgres://u:p@" + l.Addr().String() + "/d?sslmode=disable"
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := impatient(openStore(t, address))
	begun := time.Now()
	_, err = s.Handoff(t.Context(), "k")
	if took := time.Since(begun); !errors.Is(err, store.ErrUnavailable) || took < s.cfg.RetryFor/2 || took > 5*s.cfg.RetryFor {
		t.Errorf("after %v: %v", took, err)
	}
	if counted(s.metrics.unavailable) != 1 || counted(s.metrics.retries) == 0 {
		t.Errorf("%d given up, %d retries", counted(s.metrics.unavailable), counted(s.metrics.retries))
	}
	if s.Ping(t.Context()) == nil {
		t.Error("a Postgres that is away answered")
	}
}

// A wrong password does not become right within a request's time.
func TestPostgresRefusesUs(t *testing.T) {
	t.Parallel()
	address := engines.Postgres(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "wrong")
	password := openStore(t, u.String())
	u, _ = url.Parse(address)
	u.Path = "/none"
	for name, s := range map[string]*Store{"password": password, "database": openStore(t, u.String())} {
		begun := time.Now()
		if _, err := s.Handoff(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) || time.Since(begun) > s.cfg.RetryFor/2 {
			t.Errorf("wrong %s: after %v: %v", name, time.Since(begun), err)
		}
		if counted(s.metrics.unavailable) != 1 || counted(s.metrics.retries) != 0 {
			t.Errorf("wrong %s: %d given up, %d retries", name, counted(s.metrics.unavailable), counted(s.metrics.retries))
		}
	}
}

func TestPostgresHangs(t *testing.T) {
	t.Parallel()
	p, through := newProxy(t, engines.Postgres(t))
	s := openStore(t, through)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	impatient(s)
	writeHandoff(t, s, "k", "one")
	p.freeze()
	const requests = 20 // more than there are connections
	var g errgroup.Group
	begun := time.Now()
	for range requests {
		g.Go(func() error {
			if _, err := s.Handoff(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) {
				return fmt.Errorf("got %w", err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*s.cfg.RetryFor {
		t.Errorf("it took %v to give up", took)
	}
	if n := counted(s.metrics.unavailable); n != requests {
		t.Errorf("%d given up, want %d", n, requests)
	}
	// A caller that goes away, or has less patience, is no failure of Postgres.
	for name, c := range map[string]struct {
		cause error
		with  func() (context.Context, context.CancelFunc)
	}{
		"cancelled": {context.Canceled, func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			return ctx, cancel
		}},
		"deadline": {context.DeadlineExceeded, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 20*time.Millisecond)
		}},
	} {
		ctx, cancel := c.with()
		_, err := s.PutHandoff(ctx, actor, nil, store.HandoffWrite{Key: "k", Project: "p", Body: "two"})
		cancel()
		if !errors.Is(err, c.cause) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := counted(s.metrics.unavailable); n != requests {
		t.Errorf("a caller that went away was counted")
	}
	p.thaw()
	s.cfg.RetryFor = DefaultConfig().RetryFor
	if h, err := s.Handoff(t.Context(), "k"); err != nil || h.Key != "k" {
		t.Errorf("after it hung: %+v, error %v", h, err)
	}
}

func TestTransient(t *testing.T) {
	t.Parallel()
	code := func(c string) error { return &pgconn.PgError{Code: c} }
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errRaced, true},
		{errors.Join(errRaced, code("23505")), true},
		{code("08006"), true},
		{code("25006"), true},
		{code("40001"), true},
		{code("40P01"), true},
		{code("53300"), true},
		{code("57P01"), true},
		{code("57P02"), true},
		{code("57P03"), true},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{net.ErrClosed, true},
		{&net.OpError{Op: "read", Err: io.EOF}, true},
		{fmt.Errorf("committing: %w", pgconn.ErrConnClosed), true},
		{code("23505"), false},
		{code("22021"), false},
		{code("42601"), false},
		{code("42P01"), true},
		{code("42703"), true},
		{code("28P01"), false},
		{code("57014"), false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
		{store.ErrPrecondition, false},
		{store.ErrNotFound, false},
	} {
		if got := transient(fmt.Errorf("doing: %w", c.err)); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// Connections are cut at random, by the network or by an administrator.
func TestConnectionsAreCutUnderLoad(t *testing.T) {
	t.Parallel()
	t.Run("by the network", func(t *testing.T) {
		t.Parallel()
		address := engines.Postgres(t)
		p, through := newProxy(t, address)
		underLoad(t, openStore(t, address), openStore(t, through), func(n int) {
			switch n % 3 {
			case 0:
				p.cutAll()
			case 1:
				p.loseReply(1 + rand.IntN(20))
			case 2:
				p.loseQuery(1 + rand.IntN(20))
			}
		})
	})
	t.Run("by an administrator", func(t *testing.T) {
		t.Parallel()
		address := engines.Postgres(t)
		direct := openStore(t, address)
		underLoad(t, direct, openStore(t, address+"&application_name=victim"), func(int) {
			execute(t, direct, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'victim'`)
		})
	})
}

func TestPostgresIsRestartedUnderLoad(t *testing.T) {
	t.Parallel()
	engines.Postgres(t) // they are installed
	cfg := engine.DefaultConfig()
	dir, err := os.MkdirTemp("", "restart") //nolint:usetesting // engines of root run as another user, who must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = dir + "/data"
	cfg.ClickHouse.Disabled = true
	start := func() (*engine.Engines, func()) {
		e, err := engine.Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		return e, func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	e, stop := start()
	defer func() { stop() }()
	address := e.Postgres().DSN()
	underLoad(t, openStore(t, address), openStore(t, address), func(n int) {
		if n == 10 {
			stop()
			_, stop = start()
		}
	})
}

// underLoad lets requests through s while trouble is made every now and then,
// and compares what they were answered with what direct finds in the database.
func underLoad(t *testing.T, direct, s *Store, trouble func(n int)) {
	t.Helper()
	if _, err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	const workers, troubles, pause = 4, 30, 100 * time.Millisecond
	room := newRoom(t, direct)
	handoff := writeHandoff(t, direct, "k", "")
	before := len(events(t, direct))
	stopped := make(chan struct{})
	running := func() bool {
		select {
		case <-stopped:
			return false
		default:
			return true
		}
	}
	var mu sync.Mutex
	var sent []store.Message
	var tokens []string
	rooms, writes := map[uuid.UUID]bool{}, 0
	got := make([][]store.Message, workers)
	var participants []store.Participant
	for i := range workers {
		participants = append(participants, join(t, direct, room.ID, fmt.Sprint(i)))
	}
	var g, polling errgroup.Group
	for i := range workers {
		g.Go(func() error {
			for n := 0; running(); n++ {
				var o *store.Once
				if n%2 == 0 {
					o = &store.Once{Key: fmt.Sprint(i, " ", n), Operation: "send", Hash: []byte("h")}
				}
				m, err := s.Send(t.Context(), actor, o, room.ID, store.NewMessage{ParticipantID: participants[i].ID, Kind: "message", Body: fmt.Sprint(i, " ", n)})
				if err != nil {
					return fmt.Errorf("sending: %w", err)
				}
				mu.Lock()
				sent = append(sent, m)
				mu.Unlock()
			}
			return nil
		})
		g.Go(func() error {
			for n := 0; running(); {
				h, err := s.Handoff(t.Context(), "k")
				if err != nil {
					return fmt.Errorf("reading: %w", err)
				}
				token := fmt.Sprintf("<%d-%d>", i, n)
				_, err = s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{
					Key: "k", Project: "p", Body: h.Body + token, If: store.Precondition{Revisions: []int64{h.Revision}},
				})
				if errors.Is(err, store.ErrPrecondition) {
					continue
				}
				if err != nil {
					return fmt.Errorf("writing: %w", err)
				}
				n++
				mu.Lock()
				tokens = append(tokens, token)
				mu.Unlock()
			}
			return nil
		})
		g.Go(func() error {
			for n := 0; running(); n++ {
				var o *store.Once
				if n%2 == 0 {
					o = &store.Once{Key: fmt.Sprint(i, " ", n), Operation: "create", Hash: []byte("h")}
				}
				r, err := s.CreateRoom(t.Context(), actor, o, store.NewRoom{Name: "n"})
				if err != nil {
					return fmt.Errorf("creating: %w", err)
				}
				if o != nil {
					o.Operation = "put"
				}
				key := fmt.Sprint("own ", i)
				h, err := s.PutHandoff(t.Context(), actor, o, store.HandoffWrite{Key: key, Project: "p", Body: "b"})
				if err != nil || h.Revision != int64(n+1) {
					return fmt.Errorf("write %d of %s: revision %d, error %w", n, key, h.Revision, err)
				}
				mu.Lock()
				rooms[r.ID] = true
				writes++
				mu.Unlock()
			}
			return nil
		})
		polling.Go(func() error {
			for last := false; ; {
				answer, err := s.Poll(t.Context(), store.PollQuery{Room: room.ID, Participant: participants[i].ID, Limit: 10, Advance: true})
				if err != nil {
					return fmt.Errorf("polling: %w", err)
				}
				got[i] = append(got[i], answer.Messages...)
				if len(answer.Messages) == 0 {
					if last {
						return nil
					}
					select {
					case <-stopped:
						_ = g.Wait() // its error is reported below
						last = true
					case <-time.After(time.Millisecond):
					}
				}
			}
		})
	}
	for n := range troubles {
		trouble(n)
		time.Sleep(pause)
	}
	close(stopped)
	if err := errors.Join(g.Wait(), polling.Wait()); err != nil {
		t.Fatal(err)
	}

	log, err := direct.Log(t.Context(), room.ID, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(sent, func(a, b store.Message) int { return int(a.ID - b.ID) })
	if diff := cmp.Diff(log, sent); diff != "" {
		t.Errorf("what was acknowledged is not the log:\n%s", diff)
	}
	for i := range got {
		if diff := cmp.Diff(log, got[i]); diff != "" {
			t.Errorf("participant %d did not get the log:\n%s", i, diff)
		}
	}
	end, err := direct.Handoff(t.Context(), "k")
	if err != nil || end.Revision != handoff.Revision+int64(len(tokens)) {
		t.Errorf("%d writes were acknowledged and %d are counted, error %v", len(tokens), end.Revision-handoff.Revision, err)
	}
	for _, token := range tokens {
		if strings.Count(end.Body, token) != 1 {
			t.Errorf("%s is %d times in the handoff", token, strings.Count(end.Body, token))
		}
	}
	if n := column[int64](t, direct, `SELECT count(*) FROM chat_rooms`)[0]; n != int64(len(rooms))+1 {
		t.Errorf("%d rooms, %d were acknowledged", n, len(rooms)+1)
	}
	if n, want := len(events(t, direct))-before-workers, len(sent)+len(tokens)+len(rooms)+writes; n != want {
		t.Errorf("%d events, want %d", n, want)
	}
	t.Logf("%d messages, %d writes, %d rooms, %d retries", len(sent), len(tokens)+writes, len(rooms), counted(s.metrics.retries))
	if counted(s.metrics.retries) == 0 {
		t.Error("there was no trouble")
	}
}
