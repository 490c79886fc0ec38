package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store"
)

// creates are the calls that take an idempotency key. Each makes one more row
// whenever it is not a repeat.
func creates(t *testing.T, s *Store) map[string]func(context.Context, store.Actor, *store.Once) (any, error) {
	t.Helper()
	room := newRoom(t, s)
	ann := join(t, s, room.ID, "ann")
	writeHandoff(t, s, "restored", "body <&> \"quoted\" \u2028 ☃")
	return map[string]func(context.Context, store.Actor, *store.Once) (any, error){
		"put": func(ctx context.Context, a store.Actor, o *store.Once) (any, error) {
			return s.PutHandoff(ctx, a, o, store.HandoffWrite{Key: "k", Project: "p", Repo: "r", Kind: "x", Body: "body <&> \"quoted\" \u2028 ☃"})
		},
		"restore": func(ctx context.Context, a store.Actor, o *store.Once) (any, error) {
			return s.RestoreHandoff(ctx, a, o, "restored", 1, store.Precondition{})
		},
		"create a room": func(ctx context.Context, a store.Actor, o *store.Once) (any, error) {
			return s.CreateRoom(ctx, a, o, store.NewRoom{Name: "n", CreatedBy: "c"})
		},
		"join": func(ctx context.Context, a store.Actor, o *store.Once) (any, error) {
			return s.Join(ctx, a, o, room.ID, store.NewParticipant{Name: "n", Role: "human"})
		},
		"send": func(ctx context.Context, a store.Actor, o *store.Once) (any, error) {
			return s.Send(ctx, a, o, room.ID, store.NewMessage{ParticipantID: ann.ID, Target: "ann", Kind: "message", Body: "b"})
		},
	}
}

func TestTheSameKeyHasTheSameAnswer(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for name, do := range creates(t, s) {
		key := func() *store.Once { return &store.Once{Key: "key", Operation: name, Hash: []byte("hash")} }
		before := len(events(t, s))
		first := key()
		made, err := do(t.Context(), actor, first)
		if err != nil || first.Replayed {
			t.Fatalf("%s: %v, replayed %v", name, err, first.Replayed)
		}
		again := key()
		same, err := do(t.Context(), actor, again)
		if diff := cmp.Diff(made, same); err != nil || diff != "" || !again.Replayed {
			t.Errorf("%s: repeated: error %v, replayed %v\n%s", name, err, again.Replayed, diff)
		}
		reused := key()
		reused.Hash = []byte("other")
		if _, err := do(t.Context(), actor, reused); !errors.Is(err, store.ErrKeyReused) || reused.Replayed {
			t.Errorf("%s: another request with the key: %v", name, err)
		}
		if n := len(events(t, s)) - before; n != 1 {
			t.Errorf("%s: %d events, want one", name, n)
		}
		// Keys are a subject's own, for one operation.
		for _, other := range []struct {
			actor store.Actor
			once  store.Once
		}{
			{store.Actor{Name: "ann", Subject: "subject-2"}, *key()},
			{actor, store.Once{Key: "key", Operation: name + " elsewhere", Hash: []byte("hash")}},
			{actor, store.Once{Key: "key 2", Operation: name, Hash: []byte("hash")}},
		} {
			got, err := do(t.Context(), other.actor, &other.once)
			if err != nil || other.once.Replayed || cmp.Equal(made, got) {
				t.Errorf("%s: %+v: got what another made, error %v", name, other, err)
			}
		}
	}
}

func TestTheSameKeyManyTimesAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for name, do := range creates(t, s) {
		for round := range 5 {
			before := len(events(t, s))
			const twins = 16
			answers, replayed := make([]any, twins), make([]bool, twins)
			var g errgroup.Group
			for i := range twins {
				g.Go(func() (err error) {
					o := &store.Once{Key: fmt.Sprint(round), Operation: name, Hash: []byte("hash")}
					answers[i], err = do(t.Context(), actor, o)
					replayed[i] = o.Replayed
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			made := 0
			for i := range answers {
				if diff := cmp.Diff(answers[0], answers[i]); diff != "" {
					t.Fatalf("%s: answers differ:\n%s", name, diff)
				}
				if !replayed[i] {
					made++
				}
			}
			if n := len(events(t, s)) - before; n != 1 || made != 1 {
				t.Errorf("%s: %d events, %d made it; want one", name, n, made)
			}
		}
	}
}

// A refusal may have passed by the time of a repeat.
func TestARefusalIsNotKept(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	once := func() *store.Once { return &store.Once{Key: "key", Operation: "put", Hash: []byte("hash")} }
	w := store.HandoffWrite{Key: "k", Project: "p", Body: "b", If: store.Precondition{Revisions: []int64{1}}}
	if _, err := s.PutHandoff(t.Context(), actor, once(), w); !errors.Is(err, store.ErrPrecondition) {
		t.Fatal(err)
	}
	writeHandoff(t, s, "k", "first")
	o := once()
	h, err := s.PutHandoff(t.Context(), actor, o, w)
	if err != nil || h.Revision != 2 || o.Replayed {
		t.Errorf("%+v, error %v, replayed %v", h, err, o.Replayed)
	}
	// And what was written is the answer, though it would be refused now.
	o = once()
	if again, err := s.PutHandoff(t.Context(), actor, o, w); !cmp.Equal(h, again) || err != nil || !o.Replayed {
		t.Errorf("%+v, error %v, replayed %v", again, err, o.Replayed)
	}
	join := &store.Once{Key: "key", Operation: "join", Hash: []byte("hash")}
	if _, err := s.Join(t.Context(), actor, join, uuid.New(), store.NewParticipant{}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}
