package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

// create runs do, once for every o that is the same. Without o, do runs
// outside a transaction, so that one statement is one round trip; with it, in
// the transaction that also keeps the answer.
func create[T any](ctx context.Context, s *Store, a store.Actor, o *store.Once, do func(ctx context.Context, q querier, again bool) (T, error)) (T, error) {
	if o == nil {
		return retry(ctx, s, func(ctx context.Context, again bool) (T, error) { return do(ctx, s.pool, again) })
	}
	return retry(ctx, s, func(ctx context.Context, again bool) (v T, err error) {
		if found, err := s.replay(ctx, a, o, &v); found || err != nil {
			return v, err
		}
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var err error
			if v, err = do(ctx, tx, again); err != nil {
				return err
			}
			return keep(ctx, tx, a, o, v)
		})
		if err == nil {
			return v, nil
		}
		// It may be the same request's twin that was in the way.
		if violated(err) != "" {
			err = errors.Join(errRaced, err)
		}
		if transient(err) {
			return v, err
		}
		if found, e := s.replay(ctx, a, o, &v); found || e != nil {
			return v, e
		}
		return v, err
	})
}

// replay reads into v what an earlier request with the same key was answered.
func (s *Store) replay(ctx context.Context, a store.Actor, o *store.Once, v any) (found bool, err error) {
	var hash, answer []byte
	err = s.pool.QueryRow(ctx, `
		SELECT hash, answer FROM chat_idempotency WHERE subject = $1 AND operation = $2 AND key = $3`,
		a.Subject, o.Operation, o.Key).Scan(&hash, &answer)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for an idempotency key: %w", err)
	case !bytes.Equal(hash, o.Hash):
		return false, store.ErrKeyReused
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return false, fmt.Errorf("reading the answer of an idempotency key: %w", err)
	}
	o.Replayed = true
	return true, nil
}

func keep(ctx context.Context, tx pgx.Tx, a store.Actor, o *store.Once, v any) error {
	answer, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("keeping the answer of an idempotency key: %w", err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO chat_idempotency (subject, operation, key, hash, answer, created_at)
		VALUES ($1, $2, $3, $4, $5, now())`,
		a.Subject, o.Operation, o.Key, o.Hash, answer)
	if err != nil {
		return fmt.Errorf("keeping an idempotency key: %w", err)
	}
	return nil
}
