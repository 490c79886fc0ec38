package clickhouse

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/store"
)

// An event that is copied again counts once, and none is refused for its values.
func TestAlertEvents(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var events []store.AlertEvent
	for i := range 40 {
		events = append(events, store.AlertEvent{ID: uuid.New(), At: at(time.Duration(i) * time.Hour), Alert: store.Alert{
			AlertID: store.AlertID{Task: fmt.Sprint("task ", i%3), Alert: "TaskCostCeiling", Threshold: 80},
			State:   store.Firing, Episode: 1, Value: 20e9, Limit: 25e9, Summary: "s", StartsAt: at(0),
		}})
	}
	events = append(events,
		store.AlertEvent{ID: uuid.New()},
		store.AlertEvent{ID: uuid.New(), At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Alert: store.Alert{
			AlertID: store.AlertID{Task: "\x00'\\\"\xff🙂\n", Alert: "a"}, State: store.Resolved, Episode: -1,
			Value: math.MaxInt64, Limit: math.MinInt64, Summary: "\xff", Reason: "r",
		}})
	for _, part := range [][]store.AlertEvent{events, events[:30], events[20:], events} {
		if err := s.AppendAlertEvents(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	got := lines(t, s, `SELECT concat(toString(count()), ' ', toString(countIf(state = 'firing')), ' ', toString(uniqExact(task)), ' ', toString(max(value))) FROM alerts`)
	if diff := cmp.Diff([]string{fmt.Sprint("42 40 5 ", int64(math.MaxInt64))}, got); diff != "" {
		t.Error(diff)
	}
}
