package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

const roomColumns = `id, name, created_by, status, created_at, archived_at`

func scanRoom(row pgx.CollectableRow) (r store.Room, err error) {
	var archived *time.Time
	err = row.Scan(&r.ID, &r.Name, &r.CreatedBy, &r.Status, &r.CreatedAt, &archived)
	r.ArchivedAt = orZero(archived)
	return r, err
}

// orZero is the time, or the zero time for null.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// CreateRoom creates a room. Error: [store.ErrKeyReused].
func (s *Store) CreateRoom(ctx context.Context, a store.Actor, once *store.Once, n store.NewRoom) (store.Room, error) {
	id, err := newID()
	if err != nil {
		return store.Room{}, err
	}
	return create(ctx, s, a, once, func(ctx context.Context, q querier, again bool) (store.Room, error) {
		if again {
			if r, err := room(ctx, q, id); !errors.Is(err, store.ErrNotFound) {
				return r, err
			}
		}
		rows, err := q.Query(ctx, `
			WITH created AS (
				INSERT INTO chat_rooms (id, name, created_by, status, created_at)
				VALUES ($1, $2, $3, 'active', clock_timestamp()) RETURNING *
			), told AS (
				INSERT INTO chat_outbox (event_id, at, action, actor, request_id, room_id)
				SELECT id, created_at, $4, $5, $6, id FROM created
			)
			SELECT `+roomColumns+` FROM created`,
			id, n.Name, n.CreatedBy, string(store.RoomCreated), a.Name, a.RequestID)
		if err != nil {
			return store.Room{}, fmt.Errorf("creating a room: %w", err)
		}
		r, err := pgx.CollectExactlyOneRow(rows, scanRoom)
		if violated(err) == "chat_rooms_pkey" {
			return r, errors.Join(errRaced, err) // an earlier attempt's
		}
		if err != nil {
			return r, fmt.Errorf("creating a room: %w", err)
		}
		return r, nil
	})
}

// Room returns a room, or an [store.ErrNotFound].
func (s *Store) Room(ctx context.Context, id uuid.UUID) (store.Room, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) (store.Room, error) { return room(ctx, s.pool, id) })
}

func room(ctx context.Context, q querier, id uuid.UUID) (store.Room, error) {
	rows, err := q.Query(ctx, `SELECT `+roomColumns+` FROM chat_rooms WHERE id = $1`, id)
	if err != nil {
		return store.Room{}, fmt.Errorf("reading a room: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRoom)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, &store.MissingError{What: "room"}
	}
	if err != nil {
		return r, fmt.Errorf("reading a room: %w", err)
	}
	return r, nil
}

// Rooms returns a page of rooms, newest first.
func (s *Store) Rooms(ctx context.Context, q store.RoomQuery) ([]store.Room, error) {
	sql, args := `SELECT `+roomColumns+` FROM chat_rooms WHERE true`, []any{q.Limit}
	if q.Status != "" {
		args = append(args, string(q.Status))
		sql += fmt.Sprint(` AND status = $`, len(args))
	}
	if q.After != (store.RoomPosition{}) {
		args = append(args, q.After.CreatedAt, q.After.ID)
		sql += fmt.Sprintf(` AND (created_at, id) < ($%d, $%d)`, len(args)-1, len(args))
	}
	sql += ` ORDER BY created_at DESC, id DESC LIMIT $1`
	return retry(ctx, s, func(ctx context.Context, _ bool) ([]store.Room, error) {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return nil, fmt.Errorf("listing rooms: %w", err)
		}
		found, err := pgx.CollectRows(rows, scanRoom)
		if err != nil {
			return nil, fmt.Errorf("listing rooms: %w", err)
		}
		return found, nil
	})
}

// ArchiveRoom archives a room and reports whether it was active. An unknown
// one is an [store.ErrNotFound].
func (s *Store) ArchiveRoom(ctx context.Context, a store.Actor, id uuid.UUID) (bool, error) {
	event, err := newID()
	if err != nil {
		return false, err
	}
	archived, err := retry(ctx, s, func(ctx context.Context, again bool) (bool, error) {
		var archived, present bool
		// Locked first, so that the time is later than that of every message.
		err := s.pool.QueryRow(ctx, `
			WITH room AS (
				SELECT id FROM chat_rooms WHERE id = $1 AND status = 'active' FOR NO KEY UPDATE
			), archived AS (
				UPDATE chat_rooms SET status = 'archived', archived_at = clock_timestamp()
				FROM room WHERE chat_rooms.id = room.id AND status = 'active' RETURNING chat_rooms.id, archived_at
			), told AS (
				INSERT INTO chat_outbox (event_id, at, action, actor, request_id, room_id)
				SELECT $2, archived_at, $3, $4, $5, id FROM archived
			)
			SELECT EXISTS (SELECT FROM archived), EXISTS (SELECT FROM chat_rooms WHERE id = $1)`,
			id, event, string(store.RoomArchived), a.Name, a.RequestID).Scan(&archived, &present)
		switch {
		case err != nil:
			return false, fmt.Errorf("archiving a room: %w", err)
		case !present:
			return false, &store.MissingError{What: "room"}
		}
		return archived || again, nil
	})
	if archived {
		s.hub.tell(id)
	}
	return archived, err
}

// ActiveRooms counts the rooms that are not archived.
func (s *Store) ActiveRooms(ctx context.Context) (n int64, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM chat_rooms WHERE status = 'active'`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting rooms: %w", err)
	}
	return n, nil
}
