package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store"
)

func TestTheLatestWriteWins(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	key := "org/repo#1 – ünïcode/ключ"
	first, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{Key: key, Project: "p", Repo: "r", Kind: "k", Body: "one"})
	if err != nil {
		t.Fatal(err)
	}
	want := store.Handoff{
		ID: first.ID, Key: key, Project: "p", Repo: "r", Kind: "k", Body: "one", CreatedBy: "ann", UpdatedBy: "ann",
		Revision: 1, CreatedAt: first.CreatedAt, UpdatedAt: first.CreatedAt,
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first write:\n%s", diff)
	}
	second, err := s.PutHandoff(t.Context(), store.Actor{Name: "bob"}, nil, store.HandoffWrite{Key: key, Project: "p", Body: "two"})
	if err != nil {
		t.Fatal(err)
	}
	want.Repo, want.Kind, want.Body, want.UpdatedBy, want.Revision, want.UpdatedAt = "", "", "two", "bob", 2, second.UpdatedAt
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("second write:\n%s", diff)
	}
	if !second.UpdatedAt.After(first.UpdatedAt) || second.UpdatedAt.Location() != time.UTC {
		t.Errorf("updated at %v, then at %v", first.UpdatedAt, second.UpdatedAt)
	}
	read, err := s.Handoff(t.Context(), key)
	if diff := cmp.Diff(second, read); err != nil || diff != "" {
		t.Errorf("read: error %v\n%s", err, diff)
	}
	if _, err := s.Handoff(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key that never was: %v", err)
	}
}

// A clock that is set back must not put a newer write behind an older one.
func TestTimesOfAKeyGrowWhileTheClockGoesBack(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	writeHandoff(t, s, "k", "one")
	execute(t, s, `UPDATE chat_handoffs SET updated_at = now() + interval '1 hour'`)
	before := writeHandoff(t, s, "k", "two")
	after := writeHandoff(t, s, "k", "three")
	if !after.UpdatedAt.After(before.UpdatedAt) || time.Until(before.UpdatedAt) < 50*time.Minute {
		t.Errorf("updated at %v, then at %v", before.UpdatedAt, after.UpdatedAt)
	}
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	revisions := func(r ...int64) store.Precondition { return store.Precondition{Revisions: r} }
	for i, c := range []struct {
		name    string
		writes  int // before; the key is at this revision
		deleted bool
		project string
		p       store.Precondition
		put     error
		del     error
	}{
		{name: "nothing demanded of an absent key"},
		{name: "nothing demanded", writes: 2},
		{name: "If-Match", writes: 2, p: revisions(2)},
		{name: "If-Match of several", writes: 2, p: revisions(7, 2)},
		{name: "If-Match of an older one", writes: 2, p: revisions(1), put: store.ErrPrecondition, del: store.ErrPrecondition},
		{name: "If-Match of an absent key", p: revisions(1), put: store.ErrPrecondition, del: store.ErrPrecondition},
		{name: "If-Match of a deleted key", writes: 2, deleted: true, p: revisions(2), put: store.ErrPrecondition, del: store.ErrPrecondition},
		{name: "If-Match: *", writes: 2, p: store.Precondition{Exists: true}},
		{name: "If-Match: * of an absent key", p: store.Precondition{Exists: true}, put: store.ErrPrecondition, del: store.ErrPrecondition},
		{name: "If-Match: * of a deleted key", writes: 1, deleted: true, p: store.Precondition{Exists: true}, put: store.ErrPrecondition, del: store.ErrPrecondition},
		{name: "If-None-Match: *", writes: 1, p: store.Precondition{Absent: true}, put: store.ErrPrecondition},
		{name: "If-None-Match: * of an absent key", p: store.Precondition{Absent: true}},
		{name: "If-None-Match: * of a deleted key", writes: 3, deleted: true, p: store.Precondition{Absent: true}},
		{name: "another project", writes: 1, project: "other", put: store.ErrOtherProject},
		{name: "another project, If-Match", writes: 1, project: "other", p: revisions(1), put: store.ErrOtherProject},
		{name: "another project, If-Match: *", writes: 1, project: "other", p: store.Precondition{Exists: true}, put: store.ErrOtherProject},
		{name: "another project, If-None-Match: *", writes: 1, project: "other", p: store.Precondition{Absent: true}, put: store.ErrPrecondition},
		{name: "another project after a delete", writes: 1, deleted: true, project: "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			prepare := func(key string) {
				for range c.writes {
					writeHandoff(t, s, key, "before")
				}
				if c.deleted {
					if gone, err := s.DeleteHandoff(t.Context(), actor, key, store.Precondition{}); !gone || err != nil {
						t.Fatal(gone, err)
					}
				}
			}
			key := fmt.Sprint("put-", i)
			prepare(key)
			w := store.HandoffWrite{Key: key, Project: "p", Body: "after", If: c.p}
			if c.project != "" {
				w.Project = c.project
			}
			h, err := s.PutHandoff(t.Context(), actor, nil, w)
			if !errors.Is(err, c.put) || (c.put == nil && (err != nil || h.Revision != int64(c.writes+1) || h.Body != "after")) {
				t.Errorf("put: %+v, error %v; want %v", h, err, c.put)
			}
			if now, err := s.Handoff(t.Context(), key); c.put != nil && err == nil && now.Body != "before" {
				t.Errorf("a refused write left %+v", now)
			}
			if c.project != "" || c.p.Absent {
				return // not of a delete
			}
			key = fmt.Sprint("delete-", i)
			prepare(key)
			gone, err := s.DeleteHandoff(t.Context(), actor, key, c.p)
			if present := c.writes > 0 && !c.deleted; !errors.Is(err, c.del) || gone != (present && c.del == nil) {
				t.Errorf("delete: %v, error %v; want %v", gone, err, c.del)
			}
			if c.del != nil {
				return
			}
			if gone, err := s.DeleteHandoff(t.Context(), actor, key, store.Precondition{}); gone || err != nil {
				t.Errorf("a second delete: %v, error %v", gone, err)
			}
		})
	}
}

func TestOneOfManyWritersWinsEachRound(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const writers, rounds = 8, 20
	h := writeHandoff(t, s, "k", "")
	for round := range rounds {
		var won []store.Handoff
		var mu sync.Mutex
		var g errgroup.Group
		for w := range writers {
			g.Go(func() error {
				got, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{
					Key: "k", Project: "p", Body: h.Body + fmt.Sprintf("%d:%d ", round, w), If: store.Precondition{Revisions: []int64{h.Revision}},
				})
				if errors.Is(err, store.ErrPrecondition) {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				won = append(won, got)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(won) != 1 || won[0].Revision != h.Revision+1 {
			t.Fatalf("round %d: %d writers won: %+v", round, len(won), won)
		}
		read, err := s.Handoff(t.Context(), "k")
		if diff := cmp.Diff(won[0], read); err != nil || diff != "" {
			t.Fatalf("round %d: error %v\n%s", round, err, diff)
		}
		h = read
	}
}

// Read, change, write with If-Match, and again from the start when another was
// faster: every change is in the end.
func TestNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const writers, each = 8, 10
	writeHandoff(t, s, "k", "")
	var g errgroup.Group
	for w := range writers {
		g.Go(func() error {
			for i := 0; i < each; {
				h, err := s.Handoff(t.Context(), "k")
				if err != nil {
					return err
				}
				_, err = s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{
					Key: "k", Project: "p", Body: h.Body + fmt.Sprintf("<%d-%d>", w, i), If: store.Precondition{Revisions: []int64{h.Revision}},
				})
				if err == nil {
					i++
				} else if !errors.Is(err, store.ErrPrecondition) {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	h, err := s.Handoff(t.Context(), "k")
	if err != nil || h.Revision != 1+writers*each {
		t.Fatalf("revision %d, error %v", h.Revision, err)
	}
	var want int
	for w := range writers {
		for i := range each {
			want += len(fmt.Sprintf("<%d-%d>", w, i))
		}
	}
	if len(h.Body) != want {
		t.Errorf("changes are missing in %q", h.Body)
	}
}

func TestConcurrentFirstWritesOfOneKey(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for round := range 10 {
		key := fmt.Sprint("k", round)
		const writers = 16
		revisions := make([]int64, writers)
		var absent sync.Map
		var g errgroup.Group
		for w := range writers {
			g.Go(func() error {
				h, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{Key: key, Project: "p", Body: "b"})
				revisions[w] = h.Revision
				return err
			})
			g.Go(func() error {
				_, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{Key: key + " absent", Project: "p", Body: "b", If: store.Precondition{Absent: true}})
				if errors.Is(err, store.ErrPrecondition) {
					return nil
				}
				absent.Store(w, true)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(revisions)
		for i, r := range revisions {
			if r != int64(i+1) {
				t.Fatalf("revisions %v", revisions)
			}
		}
		n := 0
		absent.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d of the writers that demanded an absent key wrote it", n)
		}
	}
}

// An upsert that waits for a delete reckons with revisions of before. It must
// not give one out again, however many writes have passed meanwhile.
func TestDeletesRaceUpserts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const writers, each = 12, 60
	var mu sync.Mutex
	given := map[int64]time.Time{}
	var writing, deleting errgroup.Group
	for range writers {
		writing.Go(func() error {
			var last int64
			for range each {
				h, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{Key: "k", Project: "p", Body: "b"})
				if err != nil {
					return err
				}
				mu.Lock()
				_, twice := given[h.Revision]
				given[h.Revision] = h.UpdatedAt
				mu.Unlock()
				if twice || h.Revision <= last {
					return fmt.Errorf("revision %d was given out after %d, twice: %v", h.Revision, last, twice)
				}
				last = h.Revision
			}
			return nil
		})
	}
	stop := make(chan struct{})
	deleting.Go(func() error {
		for {
			select {
			case <-stop:
				return nil
			default:
			}
			if _, err := s.DeleteHandoff(t.Context(), actor, "k", store.Precondition{}); err != nil {
				return err
			}
		}
	})
	err := writing.Wait()
	close(stop)
	if err := errors.Join(err, deleting.Wait()); err != nil {
		t.Fatal(err)
	}
	for r := int64(1); r <= writers*each; r++ {
		at, found := given[r]
		if !found {
			t.Fatalf("revision %d was left out", r)
		}
		if r > 1 && !at.After(given[r-1]) {
			t.Errorf("revision %d is of %v, the one before of %v", r, at, given[r-1])
		}
	}
}

// The case of the race above where more writes passed than are kept.
func TestAnUpsertThatWaitedForManyWritesAndADelete(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	writeHandoff(t, s, "k", "first")
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it was committed
	if _, err := tx.Exec(t.Context(), `SELECT FROM chat_handoffs FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	done := make(chan store.Handoff, 1)
	go func() {
		h, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{Key: "k", Project: "p", Body: "last"})
		if err != nil {
			t.Error(err)
		}
		done <- h
	}()
	waiters(t, s, 1)
	const writes = store.KeptRevisions + 5
	for i := range writes {
		w, err := newWrite(actor, store.HandoffWrite{Key: "k", Project: "p", Body: fmt.Sprint(i)}, store.HandoffWritten)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.put(t.Context(), tx, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Exec(t.Context(), `DELETE FROM chat_handoffs`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := <-done; h.Revision != writes+2 {
		t.Errorf("revision %d, want %d", h.Revision, writes+2)
	}
	if n := counted(s.metrics.retries); n == 0 {
		t.Error("no retry was counted")
	}
}

// The answer to a delete is lost, and the key is written before the delete is
// repeated. What was written stays.
func TestARepeatedDeleteSparesWhatWasWrittenSince(t *testing.T) {
	t.Parallel()
	address := engines.Postgres(t)
	direct := openStore(t, address)
	if _, err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, through := newProxy(t, address)
	s := openStore(t, through)
	writeHandoff(t, s, "k", "old")
	p.shutGate()
	lost := p.loseReply(2) // after the description of the statement
	type result struct {
		deleted bool
		err     error
	}
	done := make(chan result, 1)
	go func() {
		deleted, err := s.DeleteHandoff(t.Context(), actor, "k", store.Precondition{})
		done <- result{deleted, err}
	}()
	<-lost
	writeHandoff(t, direct, "k", "new")
	p.openGate()
	if got := <-done; got.err != nil || !got.deleted {
		t.Errorf("deleted %v, error %v", got.deleted, got.err)
	}
	if h, err := direct.Handoff(t.Context(), "k"); err != nil || h.Body != "new" {
		t.Errorf("body %q, error %v", h.Body, err)
	}
	if counted(s.metrics.retries) == 0 {
		t.Error("nothing was repeated")
	}
}
