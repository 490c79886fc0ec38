package clickhouse

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/store"
)

// AppendAlertEvents stores alerts of tasks that began or ceased to fire. Storing
// the same event again changes nothing, and no event is refused for its values.
// Some events may be stored when it fails.
func (s *Store) AppendAlertEvents(ctx context.Context, events []store.AlertEvent) error {
	type e = store.AlertEvent
	columns := []column[e]{
		each("id", func(r *e) uuid.UUID { return r.ID }),
		each("time", func(r *e) time.Time { return eventTime(r.At) }),
		constant[e]("arrived", time.Now().UTC()),
		each("alertname", func(r *e) string { return r.Alert.Alert }),
		each("state", func(r *e) string { return string(r.State) }),
		each("task", func(r *e) string { return r.Task }),
		each("project", func(r *e) string { return r.Project }),
		each("repo", func(r *e) string { return r.Repo }),
		each("kind", func(r *e) string { return r.Kind }),
		each("threshold", func(r *e) uint16 { return uint16(r.Threshold) }),
		each("episode", func(r *e) uint64 { return atLeastZero(r.Episode) }),
		each("value", func(r *e) int64 { return r.Value }),
		each("limit", func(r *e) int64 { return r.Limit }),
		each("summary", func(r *e) string { return r.Summary }),
		each("starts_at", func(r *e) time.Time { return eventTime(r.StartsAt) }),
		each("reason", func(r *e) string { return r.Reason }),
	}
	return insertBlocks(ctx, s, "alert_facts", columns, events, func(e *e) time.Time { return eventTime(e.At) })
}
