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

// Poll returns the next messages that a participant may see. Of polls that
// advance at the same time each gets its own. An unknown room, or a
// participant that is not there, is an [store.ErrNotFound].
func (s *Store) Poll(ctx context.Context, q store.PollQuery) (store.Poll, error) {
	for {
		p, err := retry(ctx, s, func(ctx context.Context, _ bool) (page, error) { return s.look(ctx, q) })
		if err != nil || !q.Advance || p.to <= p.from {
			return p.Poll, err
		}
		moved, err := s.advance(ctx, q.Participant, p.from, p.to)
		if err != nil {
			return store.Poll{}, err
		}
		if moved {
			return p.Poll, nil
		}
		// Another poll of this participant was faster.
	}
}

// page is a poll's answer and how it moves the cursor.
type page struct {
	store.Poll
	from, to int64
}

// look is one statement, so that the messages and the room's last id are of
// the same moment. A poll that finds nothing writes nothing.
func (s *Store) look(ctx context.Context, q store.PollQuery) (page, error) {
	var p page
	var last int64
	rows, err := s.pool.Query(ctx, `
		SELECT r.status, p.last_seen_id, r.last_message_id,
			m.id, m.author_id, m.author_name, m.target_id, m.kind, m.body, m.created_at
		FROM chat_participants AS p
		JOIN chat_rooms AS r ON r.id = p.room_id
		LEFT JOIN LATERAL (
			SELECT * FROM chat_messages AS m
			WHERE r.last_message_id > coalesce($4, p.last_seen_id) -- else the messages are not touched
				AND m.room_id = p.room_id AND m.id > coalesce($4, p.last_seen_id)
				AND (m.target_id IS NULL OR m.target_id = p.id OR m.author_id = p.id)
			ORDER BY m.id LIMIT $3
		) AS m ON true
		WHERE p.id = $2 AND p.room_id = $1 AND p.left_at IS NULL
		ORDER BY m.id`, q.Room, q.Participant, q.Limit+1, q.After)
	if err != nil {
		return p, fmt.Errorf("polling: %w", err)
	}
	defer rows.Close()
	there := false
	for size := 0; rows.Next(); there = true {
		m := store.Message{RoomID: q.Room}
		var id *int64
		var author, kind, body *string
		var created *time.Time
		if err := rows.Scan(&p.Status, &p.from, &last, &id, &m.AuthorID, &author, &m.TargetID, &kind, &body, &created); err != nil {
			return p, fmt.Errorf("polling: %w", err)
		}
		if id == nil {
			continue // no message
		}
		size += len(*body)
		if n := len(p.Messages); n == q.Limit || n > 0 && q.MaxBytes > 0 && size > q.MaxBytes {
			p.More = true
			break
		}
		m.ID, m.AuthorName, m.Kind, m.Body, m.CreatedAt = *id, *author, *kind, *body, *created
		p.Messages = append(p.Messages, m)
	}
	rows.Close()
	switch err := rows.Err(); {
	case err != nil:
		return p, fmt.Errorf("polling: %w", err)
	case !there:
		return p, missing(ctx, s.pool, q.Room)
	}
	// Past what others said among themselves, so that it is not read again.
	p.to = last
	if p.More {
		p.to = p.Messages[len(p.Messages)-1].ID
	}
	return p, nil
}

// advance moves a cursor, unless it has been moved since it was read.
func (s *Store) advance(ctx context.Context, participant uuid.UUID, from, to int64) (bool, error) {
	poll, err := newID()
	if err != nil {
		return false, err
	}
	return retry(ctx, s, func(ctx context.Context, again bool) (bool, error) {
		tag, err := s.pool.Exec(ctx, `
			UPDATE chat_participants SET last_seen_id = $3, poll_ids = $4::uuid || poll_ids[1:15]
			WHERE id = $1 AND last_seen_id = $2 AND left_at IS NULL`, participant, from, to, poll)
		if err != nil {
			return false, fmt.Errorf("moving a cursor: %w", err)
		}
		if tag.RowsAffected() == 1 || !again {
			return tag.RowsAffected() == 1, nil
		}
		// It may be an earlier attempt that moved it, and others further since.
		var ours bool
		err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM chat_participants WHERE id = $1 AND $2 = ANY (poll_ids))`, participant, poll).Scan(&ours)
		if err != nil {
			return false, fmt.Errorf("looking at a cursor: %w", err)
		}
		return ours, nil
	})
}

// Ack moves a participant's cursor forward to an id, never back. Errors:
// [store.ErrNotFound], [store.ErrBeyond].
func (s *Store) Ack(ctx context.Context, roomID, id uuid.UUID, seen int64) (store.Participant, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) (store.Participant, error) {
		rows, err := s.pool.Query(ctx, `
			UPDATE chat_participants SET last_seen_id = greatest(last_seen_id, $3)
			WHERE id = $2 AND room_id = $1 AND left_at IS NULL
				AND $3 <= greatest(last_seen_id, (SELECT last_message_id FROM chat_rooms WHERE id = $1))
			RETURNING `+participantColumns, roomID, id, seen)
		if err != nil {
			return store.Participant{}, fmt.Errorf("acknowledging: %w", err)
		}
		p, err := pgx.CollectRows(rows, scanParticipant)
		switch {
		case err != nil:
			return store.Participant{}, fmt.Errorf("acknowledging: %w", err)
		case len(p) == 1:
			return p[0], nil
		}
		there, err := participant(ctx, s.pool, roomID, id)
		switch {
		case err == nil && there.LeftAt.IsZero():
			return there, store.ErrBeyond
		case err == nil, errors.Is(err, store.ErrNotFound):
			err = missing(ctx, s.pool, roomID)
		}
		return there, err
	})
}
