package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

const overrideColumns = `task, cost_nano, tokens, output_tokens, exempt, set_by, set_at, request_id`

func scanOverride(row pgx.CollectableRow) (o store.CeilingOverride, err error) {
	err = row.Scan(&o.Task, &o.CostNano, &o.Tokens, &o.OutputTokens, &o.Exempt, &o.SetBy, &o.SetAt, &o.RequestID)
	return o, err
}

// CeilingOverride is what was set for a task, or an [store.ErrNotFound].
func (s *Store) CeilingOverride(ctx context.Context, task string) (store.CeilingOverride, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) (store.CeilingOverride, error) {
		return override(ctx, s.pool, `SELECT `+overrideColumns+` FROM task_ceilings WHERE task = $1`, task)
	})
}

// override reads one, or an [store.ErrNotFound].
func override(ctx context.Context, q querier, sql string, args ...any) (store.CeilingOverride, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return store.CeilingOverride{}, fmt.Errorf("reading the ceiling of a task: %w", err)
	}
	o, err := pgx.CollectExactlyOneRow(rows, scanOverride)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return o, &store.MissingError{What: "ceiling"}
	case err != nil:
		return o, fmt.Errorf("reading the ceiling of a task: %w", err)
	}
	return o, nil
}

// SetCeiling replaces what is set for a task, and keeps that it was. Who and
// when come from the actor and from Postgres.
func (s *Store) SetCeiling(ctx context.Context, a store.Actor, o store.CeilingOverride) (store.CeilingOverride, error) {
	id, err := newID()
	if err != nil {
		return o, err
	}
	return retry(ctx, s, func(ctx context.Context, again bool) (store.CeilingOverride, error) {
		if again {
			// Somebody else may have set another one since.
			if done, err := override(ctx, s.pool, changed, id); !errors.Is(err, store.ErrNotFound) {
				return done, err
			}
		}
		set, err := override(ctx, s.pool, `
			WITH set AS (
				INSERT INTO task_ceilings AS c (`+overrideColumns+`)
				VALUES ($2, $3, $4, $5, $6, $7, clock_timestamp(), $8)
				ON CONFLICT (task) DO UPDATE SET cost_nano = $3, tokens = $4, output_tokens = $5, exempt = $6, set_by = $7,
					set_at = greatest(clock_timestamp(), c.set_at + interval '1 microsecond'), request_id = $8
				RETURNING *
			), kept AS (
				INSERT INTO task_ceiling_changes (change_id, `+overrideColumns+`) SELECT $1, `+overrideColumns+` FROM set
			)
			SELECT `+overrideColumns+` FROM set`,
			id, o.Task, o.CostNano, o.Tokens, o.OutputTokens, o.Exempt, a.Name, a.RequestID)
		if violated(err) != "" {
			return set, errors.Join(errRaced, err) // an earlier attempt's
		}
		return set, err
	})
}

const changed = `SELECT ` + overrideColumns + ` FROM task_ceiling_changes WHERE change_id = $1`

// CeilingChanges are the changes of a task's ceiling, the newest first.
func (s *Store) CeilingChanges(ctx context.Context, task string, limit int) ([]store.CeilingOverride, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) ([]store.CeilingOverride, error) {
		rows, err := s.pool.Query(ctx, `
			SELECT `+overrideColumns+` FROM task_ceiling_changes WHERE task = $1 ORDER BY set_at DESC LIMIT $2`, task, limit)
		if err != nil {
			return nil, fmt.Errorf("reading changes of a ceiling: %w", err)
		}
		found, err := pgx.CollectRows(rows, scanOverride)
		if err != nil {
			return nil, fmt.Errorf("reading changes of a ceiling: %w", err)
		}
		return found, nil
	})
}

// EndTask says that a task has ended. Repeated, it moves the end forward: a
// task that was taken up again can end again.
func (s *Store) EndTask(ctx context.Context, a store.Actor, task string) (store.TaskEnd, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) (store.TaskEnd, error) {
		rows, err := s.pool.Query(ctx, `
			INSERT INTO task_ends AS e (task, ended_at, ended_by, request_id) VALUES ($1, clock_timestamp(), $2, $3)
			ON CONFLICT (task) DO UPDATE SET ended_at = greatest(e.ended_at, clock_timestamp()), ended_by = $2, request_id = $3
			RETURNING task, ended_at, ended_by`, task, a.Name, a.RequestID)
		if err != nil {
			return store.TaskEnd{}, fmt.Errorf("ending a task: %w", err)
		}
		end, err := pgx.CollectExactlyOneRow(rows, scanEnd)
		if err != nil {
			return end, fmt.Errorf("ending a task: %w", err)
		}
		return end, nil
	})
}

func scanEnd(row pgx.CollectableRow) (e store.TaskEnd, err error) {
	err = row.Scan(&e.Task, &e.At, &e.By)
	return e, err
}
