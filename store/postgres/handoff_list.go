package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/szymonrychu/tatara-ledger/store"
)

// Handoffs returns a page of handoffs, newest first. Error, of a query with
// [store.HandoffQuery.Text]: [store.ErrTooBroad].
func (s *Store) Handoffs(ctx context.Context, q store.HandoffQuery) ([]store.Handoff, error) {
	sql, args := handoffList(q)
	if q.Text != "" {
		return s.search(ctx, sql, args)
	}
	return retry(ctx, s, func(ctx context.Context, _ bool) ([]store.Handoff, error) {
		return listed(ctx, s.pool, sql, args)
	})
}

func listed(ctx context.Context, q querier, sql string, args []any) ([]store.Handoff, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("listing handoffs: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanHandoff)
	if err != nil {
		return nil, fmt.Errorf("listing handoffs: %w", err)
	}
	return found, nil
}

// A search may have to look at every row, so that a few take what all others
// need.
const (
	searchesAtOnce = 4
	searchPatience = 5 * time.Second
)

// search lists under a bound of time and of how many do so at once.
func (s *Store) search(ctx context.Context, sql string, args []any) ([]store.Handoff, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) (found []store.Handoff, err error) {
		select {
		case s.searches <- struct{}{}:
			defer func() { <-s.searches }()
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for other searches: %w", ctx.Err())
		}
		err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			// By the server, so that one that hangs is not the query's fault.
			_, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, s.searchPatience.Milliseconds()))
			if err != nil {
				return fmt.Errorf("bounding a search: %w", err)
			}
			found, err = listed(ctx, tx, sql, args)
			return err
		})
		if e := (&pgconn.PgError{}); errors.As(err, &e) && e.Code == queryCanceled {
			return nil, errors.Join(store.ErrTooBroad, err)
		}
		return found, err
	})
}

// queryCanceled is that of a statement that ran into its statement_timeout.
const queryCanceled = "57014"

func handoffList(q store.HandoffQuery) (sql string, args []any) {
	var conditions []string
	where := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprint("$", len(args)), 1)
		}
		conditions = append(conditions, condition)
	}
	for _, equal := range []struct{ column, value string }{{"project", q.Project}, {"repo", q.Repo}, {"kind", q.Kind}} {
		if equal.value != "" {
			where(equal.column+` = ?`, equal.value)
		}
	}
	if q.Text != "" {
		where(`words @@ websearch_to_tsquery('english', ?)`, q.Text)
	}
	if !q.UpdatedBefore.IsZero() {
		where(`updated_at < ?`, q.UpdatedBefore)
	}
	if q.After != (store.HandoffPosition{}) {
		where(`(updated_at, id) < (?, ?)`, q.After.UpdatedAt, q.After.ID)
	}
	sql = `SELECT ` + handoffColumns + ` FROM chat_handoffs`
	if len(conditions) > 0 {
		sql += ` WHERE ` + strings.Join(conditions, ` AND `)
	}
	args = append(args, q.Limit)
	return sql + fmt.Sprint(` ORDER BY updated_at DESC, id DESC LIMIT $`, len(args)), args
}
