package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

// LogTail is every message of a room before an id, the last first. An unknown
// room is an [store.ErrNotFound].
func (s *Store) LogTail(ctx context.Context, id uuid.UUID, before int64, limit int) ([]store.Message, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) ([]store.Message, error) {
		rows, err := s.pool.Query(ctx, `
			SELECT `+messageColumns+` FROM chat_messages WHERE room_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`, id, before, limit)
		if err != nil {
			return nil, fmt.Errorf("reading the end of a log: %w", err)
		}
		found, err := pgx.CollectRows(rows, scanMessage)
		if err != nil {
			return nil, fmt.Errorf("reading the end of a log: %w", err)
		}
		if len(found) == 0 {
			if _, err := room(ctx, s.pool, id); err != nil {
				return nil, err
			}
		}
		return found, nil
	})
}
