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

const participantColumns = `id, room_id, name, role, joined_at, left_at, last_seen_id`

func scanParticipant(row pgx.CollectableRow) (p store.Participant, err error) {
	var left *time.Time
	err = row.Scan(&p.ID, &p.RoomID, &p.Name, &p.Role, &p.JoinedAt, &left, &p.LastSeenID)
	p.LeftAt = orZero(left)
	return p, err
}

// Join adds a participant, whose cursor starts at the room's last message.
// Errors: [store.ErrNotFound], [store.ErrArchived], [store.ErrKeyReused].
func (s *Store) Join(ctx context.Context, a store.Actor, once *store.Once, room uuid.UUID, n store.NewParticipant) (store.Participant, error) {
	id, err := newID()
	if err != nil {
		return store.Participant{}, err
	}
	return create(ctx, s, a, once, func(ctx context.Context, q querier, again bool) (store.Participant, error) {
		if again {
			if p, err := participant(ctx, q, room, id); !errors.Is(err, store.ErrNotFound) {
				return p, err
			}
		}
		// The lock keeps the room from being archived meanwhile, and what comes
		// out of it is the row as of then.
		rows, err := q.Query(ctx, `
			WITH room AS (
				SELECT id, status, last_message_id FROM chat_rooms WHERE id = $1 FOR SHARE
			), joined AS (
				INSERT INTO chat_participants (id, room_id, name, role, joined_at, last_seen_id)
				SELECT $2, id, $3, $4, clock_timestamp(), last_message_id
				FROM room WHERE status = 'active' RETURNING *
			), told AS (
				INSERT INTO chat_outbox (event_id, at, action, actor, request_id, room_id, participant_id)
				SELECT id, joined_at, $5, $6, $7, room_id, id FROM joined
			)
			SELECT `+participantColumns+` FROM joined`,
			room, id, n.Name, n.Role, string(store.ParticipantJoined), a.Name, a.RequestID)
		if err != nil {
			return store.Participant{}, fmt.Errorf("joining a room: %w", err)
		}
		p, err := pgx.CollectExactlyOneRow(rows, scanParticipant)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return p, closed(ctx, q, room)
		case violated(err) == "chat_participants_pkey":
			return p, errors.Join(errRaced, err) // an earlier attempt's
		case err != nil:
			return p, fmt.Errorf("joining a room: %w", err)
		}
		return p, nil
	})
}

// closed says why a room takes nothing.
func closed(ctx context.Context, q querier, id uuid.UUID) error {
	r, err := room(ctx, q, id)
	switch {
	case err != nil:
		return err
	case r.Status == store.Archived:
		return store.ErrArchived
	}
	return errRaced // it was created since
}

func participant(ctx context.Context, q querier, room, id uuid.UUID) (store.Participant, error) {
	rows, err := q.Query(ctx, `SELECT `+participantColumns+` FROM chat_participants WHERE room_id = $1 AND id = $2`, room, id)
	if err != nil {
		return store.Participant{}, fmt.Errorf("reading a participant: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanParticipant)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, &store.MissingError{What: "participant"}
	}
	if err != nil {
		return p, fmt.Errorf("reading a participant: %w", err)
	}
	return p, nil
}

// Participants are those of a room, in the order in which they joined, those
// that left included. An unknown room is an [store.ErrNotFound].
func (s *Store) Participants(ctx context.Context, id uuid.UUID) ([]store.Participant, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) ([]store.Participant, error) {
		rows, err := s.pool.Query(ctx, `SELECT `+participantColumns+` FROM chat_participants WHERE room_id = $1 ORDER BY joined_at, id`, id)
		if err != nil {
			return nil, fmt.Errorf("listing participants: %w", err)
		}
		found, err := pgx.CollectRows(rows, scanParticipant)
		if err != nil {
			return nil, fmt.Errorf("listing participants: %w", err)
		}
		if len(found) == 0 {
			if _, err := room(ctx, s.pool, id); err != nil {
				return nil, err
			}
		}
		return found, nil
	})
}

// Leave marks a participant as gone. One that is not there is an
// [store.ErrNotFound].
func (s *Store) Leave(ctx context.Context, a store.Actor, roomID, id uuid.UUID) error {
	event, err := newID()
	if err != nil {
		return err
	}
	_, err = retry(ctx, s, func(ctx context.Context, again bool) (struct{}, error) {
		var left bool
		err := s.pool.QueryRow(ctx, `
			WITH gone AS (
				UPDATE chat_participants SET left_at = clock_timestamp()
				WHERE id = $2 AND room_id = $1 AND left_at IS NULL RETURNING id, room_id, left_at
			), told AS (
				INSERT INTO chat_outbox (event_id, at, action, actor, request_id, room_id, participant_id)
				SELECT $3, left_at, $4, $5, $6, room_id, id FROM gone
			)
			SELECT EXISTS (SELECT FROM gone)`,
			roomID, id, event, string(store.ParticipantLeft), a.Name, a.RequestID).Scan(&left)
		switch {
		case err != nil:
			return struct{}{}, fmt.Errorf("leaving a room: %w", err)
		case left:
			return struct{}{}, nil
		}
		p, err := participant(ctx, s.pool, roomID, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return struct{}{}, missing(ctx, s.pool, roomID)
		case err == nil && !again:
			err = &store.MissingError{What: "participant"}
		case err == nil && p.LeftAt.IsZero():
			err = errRaced
		}
		return struct{}{}, err // again: an earlier attempt's
	})
	return err
}

// missing says whether it is the room that is missing, or the participant.
func missing(ctx context.Context, q querier, id uuid.UUID) error {
	if _, err := room(ctx, q, id); err != nil {
		return err
	}
	return &store.MissingError{What: "participant"}
}
