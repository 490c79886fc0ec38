package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

// AlertReader is one of those who are told of every alert that begins or ceases
// to fire. It is the name of a column.
type AlertReader string

// The readers.
const (
	ToLedger  AlertReader = "to_ledger"
	ToWebhook AlertReader = "to_webhook"
)

// AlertOutbox is what a reader is still to be told.
type AlertOutbox struct {
	store  *Store
	reader AlertReader
}

// AlertsFor is what waits for a reader.
func (s *Store) AlertsFor(reader AlertReader) AlertOutbox { return AlertOutbox{s, reader} }

// Drain hands up to limit events to into, the oldest first, and notes
// that the reader has them if it succeeds. What every reader has is removed.
// If into fails, or anything after it, they are handed out again: into must
// bear to see an event twice. One caller at a time drains for a reader; others
// find nothing, so that the order holds.
//
// Nothing is retried inside: the caller waits as it likes.
func (o AlertOutbox) Drain(ctx context.Context, limit int, into func(context.Context, []store.AlertEvent) error) (n int, err error) {
	err = pgx.BeginFunc(ctx, o.store.pool, func(tx pgx.Tx) error {
		var free bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtext($1))`, "drain alerts "+string(o.reader)).Scan(&free); err != nil {
			return fmt.Errorf("locking the outbox: %w", err)
		}
		if !free {
			return nil
		}
		ids, events, err := waitingAlerts(ctx, tx, o.reader, limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := into(ctx, events); err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(`UPDATE task_alert_outbox SET `+string(o.reader)+` = false WHERE id = ANY ($1)`, ids)
		b.Queue(`DELETE FROM task_alert_outbox WHERE id = ANY ($1) AND NOT to_ledger AND NOT to_webhook`, ids)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("emptying the outbox: %w", err)
		}
		n = len(ids)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("draining alerts: %w", err)
	}
	return n, nil
}

func waitingAlerts(ctx context.Context, tx pgx.Tx, reader AlertReader, limit int) (ids []int64, events []store.AlertEvent, err error) {
	rows, err := tx.Query(ctx, `
		SELECT id, `+transitionColumns+` FROM task_alert_outbox WHERE `+string(reader)+` ORDER BY id LIMIT $1`, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the outbox: %w", err)
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e store.AlertEvent, err error) {
		var id int64
		var ends *time.Time
		err = row.Scan(&id, &e.ID, &e.At, &e.Task, &e.Alert.Alert, &e.Threshold, &e.Project, &e.Repo, &e.Kind, &e.State, &e.Episode,
			&e.Value, &e.Limit, &e.Summary, &e.Description, &e.AsOf, &e.StartsAt, &ends, &e.Reason)
		e.EndsAt = orZero(ends)
		ids, events = append(ids, id), append(events, e)
		return e, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the outbox: %w", err)
	}
	return ids, events, nil
}

// Backlog is how many events wait, counted up to limit, and since when (zero:
// none waits).
func (o AlertOutbox) Backlog(ctx context.Context, limit int) (n int, oldest time.Time, err error) {
	var first *time.Time
	err = o.store.pool.QueryRow(ctx, `
		SELECT count(*), min(at) FROM (SELECT at FROM task_alert_outbox WHERE `+string(o.reader)+` ORDER BY id LIMIT $1) AS head`, limit).Scan(&n, &first)
	if err != nil {
		return 0, oldest, fmt.Errorf("counting the outbox: %w", err)
	}
	return n, orZero(first), nil
}
