package postgres

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/store"
)

func TestLogTail(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ann, elsewhere := join(t, s, newRoom(t, s).ID, "ann"), join(t, s, newRoom(t, s).ID, "ann")
	tail := func(before int64, limit int) []store.Message {
		t.Helper()
		found, err := s.LogTail(t.Context(), ann.RoomID, before, limit)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got := tail(math.MaxInt64, 3); len(got) != 0 {
		t.Errorf("of an empty room: %v", got)
	}
	var all []store.Message // the last first
	for _, body := range []string{"1", "2", "3", "4"} {
		all = append([]store.Message{say(t, s, ann, "ann", body)}, all...)
		say(t, s, elsewhere, "", body)
	}
	for _, c := range []struct {
		before int64
		limit  int
		want   []store.Message
	}{
		{math.MaxInt64, 1, all[:1]},
		{math.MaxInt64, 10, all},
		{all[0].ID, 2, all[1:3]},
		{all[2].ID, 2, all[3:]},
	} {
		if diff := cmp.Diff(c.want, tail(c.before, c.limit)); diff != "" {
			t.Errorf("%d before %d: %s", c.limit, c.before, diff)
		}
	}
	if got := tail(all[3].ID, 2); len(got) != 0 {
		t.Errorf("before the first: %v", got)
	}
	if _, err := s.LogTail(t.Context(), uuid.New(), math.MaxInt64, 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of an unknown room: %v", err)
	}
}
