package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/szymonrychu/tatara-ledger/store"
)

func TestTheLastRevisionsAreKept(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, err := s.Revisions(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a key that never was: %v", err)
	}
	const writes = store.KeptRevisions + 7
	for i := 1; i <= writes; i++ {
		writeHandoff(t, s, "k", fmt.Sprint("body ", i))
		writeHandoff(t, s, "other", fmt.Sprint("other ", i))
	}
	got, err := s.Revisions(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	var want []store.Revision
	for i := writes; i > writes-store.KeptRevisions; i-- {
		want = append(want, store.Revision{Revision: int64(i), Project: "p", Body: fmt.Sprint("body ", i), WrittenBy: "ann", RequestID: "run-1"})
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Revision{}, "WrittenAt")); diff != "" {
		t.Error(diff)
	}
	for i := 1; i < len(got); i++ {
		if !got[i-1].WrittenAt.After(got[i].WrittenAt) {
			t.Errorf("revision %d is of %v, the one before of %v", got[i-1].Revision, got[i-1].WrittenAt, got[i].WrittenAt)
		}
	}
	if _, err := s.RestoreHandoff(t.Context(), actor, nil, "k", writes-store.KeptRevisions, store.Precondition{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("restoring one that is kept no longer: %v", err)
	}
}

// What nobody can read any more must not fill the disk.
func TestOldRevisionsAreDeleted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for range 3 * store.KeptRevisions {
		writeHandoff(t, s, "k", "b")
	}
	kept := func() int64 { return column[int64](t, s, `SELECT count(*) FROM chat_handoff_revisions`)[0] }
	if n := kept(); n != 3*store.KeptRevisions {
		t.Errorf("%d revisions of the last minute, want all %d", n, 3*store.KeptRevisions)
	}
	aged(t, s)
	for range 3 {
		writeHandoff(t, s, "k", "b")
	}
	if n := kept(); n != store.KeptRevisions {
		t.Errorf("%d revisions are kept, want %d", n, store.KeptRevisions)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{Key: "k", Project: "p", Repo: "r", Kind: "x", Body: "one"})
	if err != nil {
		t.Fatal(err)
	}
	writeHandoff(t, s, "k", "two")
	bob := store.Actor{Name: "bob", RequestID: "run-2"}
	restored, err := s.RestoreHandoff(t.Context(), bob, nil, "k", 1, store.Precondition{Revisions: []int64{2}})
	if err != nil {
		t.Fatal(err)
	}
	want := first
	want.Revision, want.UpdatedBy, want.UpdatedAt = 3, "bob", restored.UpdatedAt
	if diff := cmp.Diff(want, restored); diff != "" {
		t.Error(diff)
	}
	revisions, err := s.Revisions(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	newest := store.Revision{
		Revision: 3, Project: "p", Repo: "r", Kind: "x", Body: "one", WrittenBy: "bob", WrittenAt: restored.UpdatedAt, RequestID: "run-2", Restored: 1,
	}
	if diff := cmp.Diff(newest, revisions[0]); diff != "" {
		t.Error(diff)
	}

	for name, c := range map[string]struct {
		key      string
		revision int64
		p        store.Precondition
		want     error
	}{
		"a revision that never was": {"k", 9, store.Precondition{}, store.ErrNotFound},
		"a key that never was":      {"none", 1, store.Precondition{}, store.ErrNotFound},
		"another present revision":  {"k", 1, store.Precondition{Revisions: []int64{2}}, store.ErrPrecondition},
		"a present row":             {"k", 1, store.Precondition{Absent: true}, store.ErrPrecondition},
	} {
		if _, err := s.RestoreHandoff(t.Context(), actor, nil, c.key, c.revision, c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if diff := cmp.Diff([]string{"handoff_written", "handoff_written", "handoff_restored"}, events(t, s)); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
}

func TestRestoreAfterADelete(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first := writeHandoff(t, s, "k", "one")
	if gone, err := s.DeleteHandoff(t.Context(), actor, "k", store.Precondition{}); !gone || err != nil {
		t.Fatal(gone, err)
	}
	if revisions, err := s.Revisions(t.Context(), "k"); len(revisions) != 1 || err != nil {
		t.Errorf("a deleted key has the revisions %v, error %v", revisions, err)
	}
	h, err := s.RestoreHandoff(t.Context(), actor, nil, "k", 1, store.Precondition{})
	if err != nil || h.Revision != 2 || h.Body != "one" || h.ID == first.ID {
		t.Errorf("restored %+v, error %v", h, err)
	}
	// The key may have gone to another project meanwhile.
	if _, err := s.DeleteHandoff(t.Context(), actor, "k", store.Precondition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutHandoff(t.Context(), actor, nil, store.HandoffWrite{Key: "k", Project: "other", Body: "b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RestoreHandoff(t.Context(), actor, nil, "k", 1, store.Precondition{}); !errors.Is(err, store.ErrOtherProject) {
		t.Errorf("restoring into another project: %v", err)
	}
}

// Its own restoration pushes the revision out.
func TestRestoreTheOldestRevision(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := 1; i <= store.KeptRevisions; i++ {
		writeHandoff(t, s, "k", fmt.Sprint("body ", i))
	}
	aged(t, s)
	h, err := s.RestoreHandoff(t.Context(), actor, nil, "k", 1, store.Precondition{})
	if err != nil || h.Body != "body 1" || h.Revision != store.KeptRevisions+1 {
		t.Errorf("restored %+v, error %v", h, err)
	}
	revisions, err := s.Revisions(t.Context(), "k")
	if err != nil || len(revisions) != store.KeptRevisions || revisions[len(revisions)-1].Revision != 2 {
		t.Errorf("%d revisions, error %v", len(revisions), err)
	}
}
