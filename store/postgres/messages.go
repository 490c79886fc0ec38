package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

const messageColumns = `id, room_id, author_id, author_name, target_id, kind, body, created_at`

func scanMessage(row pgx.CollectableRow) (m store.Message, err error) {
	err = row.Scan(&m.ID, &m.RoomID, &m.AuthorID, &m.AuthorName, &m.TargetID, &m.Kind, &m.Body, &m.CreatedAt)
	return m, err
}

// Send writes a message. Errors: [store.ErrNotFound] for an unknown room, an
// author or a target that is not there, [store.ErrAmbiguous],
// [store.ErrArchived], [store.ErrKeyReused].
func (s *Store) Send(ctx context.Context, a store.Actor, once *store.Once, room uuid.UUID, n store.NewMessage) (store.Message, error) {
	id, err := newID()
	if err != nil {
		return store.Message{}, err
	}
	m, err := create(ctx, s, a, once, func(ctx context.Context, q querier, again bool) (store.Message, error) {
		if !again {
			return send(ctx, q, a, id, room, n)
		}
		m, err := sent(ctx, q, id)
		if !errors.Is(err, pgx.ErrNoRows) {
			return m, err
		}
		if m, err = send(ctx, q, a, id, room, n); err == nil || transient(err) {
			return m, err
		}
		// It may have waited for an earlier attempt, and then for the room's end.
		if earlier, e := sent(ctx, q, id); !errors.Is(e, pgx.ErrNoRows) {
			return earlier, e
		}
		return m, err
	})
	if err == nil {
		s.hub.tell(room)
	}
	return m, err
}

// sent is what an earlier attempt wrote.
func sent(ctx context.Context, q querier, id uuid.UUID) (store.Message, error) {
	rows, err := q.Query(ctx, `SELECT `+messageColumns+` FROM chat_messages WHERE send_id = $1`, id)
	if err != nil {
		return store.Message{}, fmt.Errorf("looking for a message: %w", err)
	}
	m, err := pgx.CollectExactlyOneRow(rows, scanMessage)
	if err != nil {
		return m, fmt.Errorf("looking for a message: %w", err)
	}
	return m, nil
}

func send(ctx context.Context, q querier, a store.Actor, id, room uuid.UUID, n store.NewMessage) (store.Message, error) {
	target, err := resolve(ctx, q, room, n.Target)
	if err != nil {
		return store.Message{}, err
	}
	// An update that waited for another one evaluates its assignments anew, so
	// the id and the time are those of a moment at which the room is locked.
	rows, err := q.Query(ctx, `
		WITH room AS (
			UPDATE chat_rooms AS r SET last_message_id = nextval('chat_message_id'), last_message_at = clock_timestamp()
			FROM chat_participants AS author
			WHERE r.id = $1 AND r.status = 'active' AND author.id = $3 AND author.room_id = $1 AND author.left_at IS NULL
			RETURNING r.id, r.last_message_id, r.last_message_at, author.id AS author_id, author.name AS author_name
		), sent AS (
			INSERT INTO chat_messages (room_id, id, send_id, author_id, author_name, target_id, kind, body, created_at)
			SELECT id, last_message_id, $2, author_id, author_name, $4, $5, $6, last_message_at FROM room
			RETURNING *
		), told AS (
			INSERT INTO chat_outbox (event_id, at, action, actor, request_id, kind, room_id, participant_id, message_id, direct, bytes)
			SELECT $2, created_at, $7, $8, $9, kind, room_id, author_id, id, target_id IS NOT NULL, octet_length(body) FROM sent
		)
		SELECT `+messageColumns+` FROM sent`,
		room, id, n.ParticipantID, target, n.Kind, n.Body, string(store.MessageSent), a.Name, a.RequestID)
	if err != nil {
		return store.Message{}, fmt.Errorf("sending a message: %w", err)
	}
	m, err := pgx.CollectExactlyOneRow(rows, scanMessage)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return m, unsent(ctx, q, room, n.ParticipantID)
	case violated(err) != "":
		return m, errors.Join(errRaced, err) // an earlier attempt's
	case err != nil:
		return m, fmt.Errorf("sending a message: %w", err)
	}
	return m, nil
}

// resolve finds the participant that a message is for.
func resolve(ctx context.Context, q querier, room uuid.UUID, target string) (id uuid.NullUUID, err error) {
	if target == "" {
		return id, nil
	}
	known, err := uuid.Parse(target)
	isID := err == nil
	rows, err := q.Query(ctx, `
		SELECT id FROM chat_participants
		WHERE room_id = $1 AND left_at IS NULL AND CASE WHEN $2 THEN id = $3 ELSE name = $4 END LIMIT 2`,
		room, isID, known, target)
	if err != nil {
		return id, fmt.Errorf("looking for a message's target: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	switch {
	case err != nil:
		return id, fmt.Errorf("looking for a message's target: %w", err)
	case len(found) == 0:
		return id, &store.MissingError{What: "target"}
	case len(found) > 1:
		return id, store.ErrAmbiguous
	}
	return uuid.NullUUID{UUID: found[0], Valid: true}, nil
}

// unsent says why a message was not written.
func unsent(ctx context.Context, q querier, room, author uuid.UUID) error {
	if err := closed(ctx, q, room); !errors.Is(err, errRaced) {
		return err
	}
	p, err := participant(ctx, q, room, author)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !p.LeftAt.IsZero():
		return &store.MissingError{What: "participant_id"}
	case err != nil:
		return err
	}
	return errRaced // it joined since
}

// Log is every message of a room after an id, in id order. An unknown room is
// an [store.ErrNotFound].
func (s *Store) Log(ctx context.Context, id uuid.UUID, after int64, limit int) ([]store.Message, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) ([]store.Message, error) {
		rows, err := s.pool.Query(ctx, `
			SELECT `+messageColumns+` FROM chat_messages WHERE room_id = $1 AND id > $2 ORDER BY id LIMIT $3`, id, after, limit)
		if err != nil {
			return nil, fmt.Errorf("reading a log: %w", err)
		}
		found, err := pgx.CollectRows(rows, scanMessage)
		if err != nil {
			return nil, fmt.Errorf("reading a log: %w", err)
		}
		if len(found) == 0 {
			if _, err := room(ctx, s.pool, id); err != nil {
				return nil, err
			}
		}
		return found, nil
	})
}
