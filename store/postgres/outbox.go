package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

// Drain hands up to limit events of the outbox to into, the oldest first, and
// removes them if it succeeds. It returns how many it removed. If into fails,
// or anything after it, they stay and are handed out again: into must bear to
// see an event twice. Events that another caller is draining are passed over.
//
// Nothing is retried inside: the caller waits as it likes.
func (s *Store) Drain(ctx context.Context, limit int, into func(context.Context, []store.Event) error) (n int, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		ids, events, err := lockOutbox(ctx, tx, limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := into(ctx, events); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM chat_outbox WHERE id = ANY ($1)`, ids); err != nil {
			return fmt.Errorf("emptying the outbox: %w", err)
		}
		n = len(ids)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("draining the outbox: %w", err)
	}
	return n, nil
}

// lockOutbox reads events, and the ids of their rows, under locks that other
// drains pass over.
func lockOutbox(ctx context.Context, tx pgx.Tx, limit int) ([]int64, []store.Event, error) {
	rows, err := tx.Query(ctx, `
		SELECT id, event_id, at, action, actor, request_id, project, repo, kind, handoff_key, revision, age_ms,
			room_id, participant_id, message_id, direct, bytes
		FROM chat_outbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the outbox: %w", err)
	}
	var (
		ids     []int64
		events  []store.Event
		e       store.Event
		id, age int64
	)
	_, err = pgx.ForEachRow(rows, []any{
		&id, &e.ID, &e.At, &e.Action, &e.Actor, &e.RequestID, &e.Project, &e.Repo, &e.Kind, &e.Key, &e.Revision, &age,
		&e.RoomID, &e.ParticipantID, &e.MessageID, &e.Direct, &e.Bytes,
	}, func() error {
		e.Age = time.Duration(age) * time.Millisecond
		ids, events = append(ids, id), append(events, e)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the outbox: %w", err)
	}
	return ids, events, nil
}

// Backlog is what waits in the outbox: how many events, counted up to limit,
// and when the oldest happened (zero: there is none).
func (s *Store) Backlog(ctx context.Context, limit int) (n int, oldest time.Time, err error) {
	var first *time.Time
	err = s.pool.QueryRow(ctx, `
		SELECT count(*), min(at) FROM (SELECT at FROM chat_outbox ORDER BY id LIMIT $1) AS head`, limit).Scan(&n, &first)
	if err != nil {
		return 0, oldest, fmt.Errorf("counting the outbox: %w", err)
	}
	if first != nil {
		oldest = *first
	}
	return n, oldest, nil
}
