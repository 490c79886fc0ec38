package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/store"
)

// scene is what the changes of a fault test work on.
type scene struct {
	s      *Store // without a proxy
	room   store.Room
	ann    store.Participant
	bob    store.Participant
	other  store.Participant
	serial int
}

func newScene(t *testing.T, s *Store) *scene {
	t.Helper()
	c := &scene{s: s, room: newRoom(t, s)}
	c.ann, c.bob, c.other = join(t, s, c.room.ID, "ann"), join(t, s, c.room.ID, "bob"), join(t, s, c.room.ID, "other")
	return c
}

// change is a mutating operation: prepared without faults, done through the
// faulty store, and then compared with what is in the database.
type change struct {
	name   string
	action store.Action
	// prepare returns the change and what reads its result back.
	prepare func(t *testing.T, c *scene) (do func(context.Context, *Store) (any, error), read func(context.Context) (any, error))
}

func changes() []change {
	type do = func(context.Context, *Store) (any, error)
	type read = func(context.Context) (any, error)
	key := func(c *scene) string { c.serial++; return fmt.Sprint("key-", c.serial) }
	once := func(c *scene) *store.Once {
		c.serial++
		return &store.Once{Key: fmt.Sprint("once-", c.serial), Operation: "test", Hash: []byte("1")}
	}
	handoff := func(c *scene, k string) read {
		return func(ctx context.Context) (any, error) { return c.s.Handoff(ctx, k) }
	}
	put := func(condition func(h store.Handoff) store.Precondition, existing, keyed bool) func(*testing.T, *scene) (do, read) {
		return func(t *testing.T, c *scene) (do, read) {
			w := store.HandoffWrite{Key: key(c), Project: "p", Body: "second"}
			if existing {
				w.If = condition(writeHandoff(t, c.s, w.Key, "first"))
			} else {
				w.If = condition(store.Handoff{})
			}
			var o *store.Once
			if keyed {
				o = once(c)
			}
			return func(ctx context.Context, s *Store) (any, error) { return s.PutHandoff(ctx, actor, o, w) }, handoff(c, w.Key)
		}
	}
	nothing := func(store.Handoff) store.Precondition { return store.Precondition{} }
	match := func(h store.Handoff) store.Precondition { return store.Precondition{Revisions: []int64{h.Revision}} }
	exists := func(store.Handoff) store.Precondition { return store.Precondition{Exists: true} }
	absent := func(store.Handoff) store.Precondition { return store.Precondition{Absent: true} }
	message := func(c *scene) read {
		return func(ctx context.Context) (any, error) {
			all, err := c.s.Log(ctx, c.room.ID, 0, 1000)
			if len(all) == 0 {
				return store.Message{}, err
			}
			return all[len(all)-1], err
		}
	}
	send := func(target string, keyed bool) func(*testing.T, *scene) (do, read) {
		return func(_ *testing.T, c *scene) (do, read) {
			var o *store.Once
			if keyed {
				o = once(c)
			}
			c.serial++
			n := store.NewMessage{ParticipantID: c.ann.ID, Kind: "message", Body: fmt.Sprint("hello ", c.serial), Target: target}
			return func(ctx context.Context, s *Store) (any, error) { return s.Send(ctx, actor, o, c.room.ID, n) }, message(c)
		}
	}
	createRoom := func(keyed bool) func(*testing.T, *scene) (do, read) {
		return func(_ *testing.T, c *scene) (do, read) {
			var o *store.Once
			if keyed {
				o = once(c)
			}
			return func(ctx context.Context, s *Store) (any, error) {
					return s.CreateRoom(ctx, actor, o, store.NewRoom{Name: "n", CreatedBy: "c"})
				}, func(ctx context.Context) (any, error) {
					all, err := c.s.Rooms(ctx, store.RoomQuery{Limit: 1})
					return all[0], err
				}
		}
	}
	joining := func(keyed bool) func(*testing.T, *scene) (do, read) {
		return func(_ *testing.T, c *scene) (do, read) {
			var o *store.Once
			if keyed {
				o = once(c)
			}
			return func(ctx context.Context, s *Store) (any, error) {
					return s.Join(ctx, actor, o, c.room.ID, store.NewParticipant{Name: "new", Role: "human"})
				}, func(ctx context.Context) (any, error) {
					all, err := c.s.Participants(ctx, c.room.ID)
					return all[len(all)-1], err
				}
		}
	}
	return []change{
		{"upsert of a new key", store.HandoffWritten, put(nothing, false, false)},
		{"upsert", store.HandoffWritten, put(nothing, true, false)},
		{"upsert with an idempotency key", store.HandoffWritten, put(nothing, true, true)},
		{"If-Match", store.HandoffWritten, put(match, true, false)},
		{"If-Match with an idempotency key", store.HandoffWritten, put(match, true, true)},
		{"If-Match: *", store.HandoffWritten, put(exists, true, false)},
		{"If-None-Match: *", store.HandoffWritten, put(absent, false, false)},
		{"If-None-Match: * with an idempotency key", store.HandoffWritten, put(absent, false, true)},
		{"restore", store.HandoffRestored, func(t *testing.T, c *scene) (do, read) {
			k := key(c)
			for i := range store.KeptRevisions { // the restored one is dropped by its restoration
				writeHandoff(t, c.s, k, fmt.Sprint("body ", i))
			}
			aged(t, c.s)
			return func(ctx context.Context, s *Store) (any, error) {
				return s.RestoreHandoff(ctx, actor, nil, k, 1, store.Precondition{Revisions: []int64{store.KeptRevisions}})
			}, handoff(c, k)
		}},
		{"restore of a deleted one with an idempotency key", store.HandoffRestored, func(t *testing.T, c *scene) (do, read) {
			k, o := key(c), once(c)
			writeHandoff(t, c.s, k, "gone")
			if _, err := c.s.DeleteHandoff(t.Context(), actor, k, store.Precondition{}); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context, s *Store) (any, error) {
				return s.RestoreHandoff(ctx, actor, o, k, 1, store.Precondition{Absent: true})
			}, handoff(c, k)
		}},
		{"delete", store.HandoffDeleted, func(t *testing.T, c *scene) (do, read) {
			k := key(c)
			writeHandoff(t, c.s, k, "gone")
			return func(ctx context.Context, s *Store) (any, error) {
				return s.DeleteHandoff(ctx, actor, k, store.Precondition{})
			}, nil
		}},
		{"delete with If-Match", store.HandoffDeleted, func(t *testing.T, c *scene) (do, read) {
			k := key(c)
			p := match(writeHandoff(t, c.s, k, "gone"))
			return func(ctx context.Context, s *Store) (any, error) { return s.DeleteHandoff(ctx, actor, k, p) }, nil
		}},
		{"create a room", store.RoomCreated, createRoom(false)},
		{"create a room with an idempotency key", store.RoomCreated, createRoom(true)},
		{"archive", store.RoomArchived, func(t *testing.T, c *scene) (do, read) {
			room := newRoom(t, c.s)
			return func(ctx context.Context, s *Store) (any, error) { return s.ArchiveRoom(ctx, actor, room.ID) }, nil
		}},
		{"join", store.ParticipantJoined, joining(false)},
		{"join with an idempotency key", store.ParticipantJoined, joining(true)},
		{"leave", store.ParticipantLeft, func(t *testing.T, c *scene) (do, read) {
			p := join(t, c.s, c.room.ID, "gone")
			return func(ctx context.Context, s *Store) (any, error) { return true, s.Leave(ctx, actor, c.room.ID, p.ID) }, nil
		}},
		{"send", store.MessageSent, send("", false)},
		{"send to a name", store.MessageSent, send("bob", false)},
		{"send with an idempotency key", store.MessageSent, send("", true)},
		{"send to a name with an idempotency key", store.MessageSent, send("bob", true)},
	}
}

// A connection that is cut while the commit's answer is on its way leaves the
// client without knowledge of what happened. Every exchange of every change is
// lost once, on its way to Postgres and on its way back.
func TestEveryExchangeOfEveryChangeIsLostOnce(t *testing.T) {
	t.Parallel()
	address := engines.Postgres(t)
	direct := openStore(t, address)
	if _, err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newScene(t, direct)
	for _, ch := range changes() {
		t.Run(ch.name, func(t *testing.T) {
			for _, way := range []struct {
				name string
				arm  func(*proxy, int) <-chan struct{}
			}{{"request", (*proxy).loseQuery}, {"answer", (*proxy).loseReply}} {
				for n, lost := 1, true; lost; n++ {
					p, through := newProxy(t, address)
					s := openStore(t, through)
					if err := s.Ping(t.Context()); err != nil {
						t.Fatal(err)
					}
					do, read := ch.prepare(t, c)
					before := events(t, direct)
					way.arm(p, n)
					got, err := do(t.Context(), s)
					lost = p.disarm()
					where := fmt.Sprintf("%s %d lost", way.name, n)
					if err != nil {
						t.Fatalf("%s: %v", where, err)
					}
					if read != nil {
						want, err := read(t.Context())
						if err != nil {
							t.Fatalf("%s: %v", where, err)
						}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%s: the answer is not what is in the database:\n%s", where, diff)
						}
					} else if got != true {
						t.Errorf("%s: got %v, want true", where, got)
					}
					if diff := cmp.Diff([]string{string(ch.action)}, events(t, direct)[len(before):]); diff != "" {
						t.Errorf("%s: events:\n%s", where, diff)
					}
					if lost && counted(s.metrics.retries) == 0 {
						t.Errorf("%s: no retry was counted", where)
					}
					s.Close()
				}
			}
		})
	}
}

// A connection may be lost while its statement still waits for a lock. Postgres
// goes on with it, beside the repeat, and commits.
func TestARepeatFindsAnAttemptThatIsStillUnderWay(t *testing.T) {
	t.Parallel()
	address := engines.Postgres(t)
	direct := openStore(t, address)
	if _, err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Every attempt stops where it tells of what it did, with its locks held.
	execute(t, direct, `
		CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
		CREATE TRIGGER stop BEFORE INSERT ON chat_outbox FOR EACH ROW EXECUTE FUNCTION stop()`)
	c := newScene(t, direct)
	for _, ch := range changes() {
		t.Run(ch.name, func(t *testing.T) {
			p, through := newProxy(t, address)
			s := openStore(t, through)
			do, read := ch.prepare(t, c)
			before := events(t, direct)
			tx, err := direct.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it was committed
			if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1)`); err != nil {
				t.Fatal(err)
			}
			type result struct {
				v   any
				err error
			}
			done := make(chan result, 1)
			go func() {
				v, err := do(t.Context(), s)
				done <- result{v, err}
			}()
			waiters(t, direct, 1)
			p.cutAll()
			waiters(t, direct, 2)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := <-done
			if got.err != nil {
				t.Fatal(got.err)
			}
			if read != nil {
				want, err := read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got.v); diff != "" {
					t.Errorf("the answer is not what is in the database:\n%s", diff)
				}
			} else if got.v != true {
				t.Errorf("got %v, want true", got.v)
			}
			if diff := cmp.Diff([]string{string(ch.action)}, events(t, direct)[len(before):]); diff != "" {
				t.Errorf("events:\n%s", diff)
			}
		})
	}
}

// waiters waits until so many sessions wait for a lock.
func waiters(t *testing.T, s *Store, n int64) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " sessions wait for a lock"), func() bool {
		return column[int64](t, s, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)[0] >= n
	})
}
