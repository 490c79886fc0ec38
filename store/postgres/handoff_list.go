package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

// Handoffs returns a page of handoffs, newest first.
func (s *Store) Handoffs(ctx context.Context, q store.HandoffQuery) ([]store.Handoff, error) {
	sql, args := handoffList(q)
	return retry(ctx, s, func(ctx context.Context, _ bool) ([]store.Handoff, error) {
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			return nil, fmt.Errorf("listing handoffs: %w", err)
		}
		found, err := pgx.CollectRows(rows, scanHandoff)
		if err != nil {
			return nil, fmt.Errorf("listing handoffs: %w", err)
		}
		return found, nil
	})
}

func handoffList(q store.HandoffQuery) (sql string, args []any) {
	var conditions []string
	where := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprint("$", len(args)), 1)
		}
		conditions = append(conditions, condition)
	}
	var with string
	if q.Text != "" {
		// On its own, since a planner that walks a project's rows in order
		// would parse every body.
		args = append(args, q.Text)
		with = `WITH hit AS MATERIALIZED (
			SELECT id FROM chat_handoffs WHERE to_tsvector('english', body) @@ websearch_to_tsquery('english', $1)) `
		where(`id IN (SELECT id FROM hit)`)
	}
	for _, equal := range []struct{ column, value string }{{"project", q.Project}, {"repo", q.Repo}, {"kind", q.Kind}} {
		if equal.value != "" {
			where(equal.column+` = ?`, equal.value)
		}
	}
	if !q.UpdatedBefore.IsZero() {
		where(`updated_at < ?`, q.UpdatedBefore)
	}
	if q.After != (store.HandoffPosition{}) {
		where(`(updated_at, id) < (?, ?)`, q.After.UpdatedAt, q.After.ID)
	}
	sql = with + `SELECT ` + handoffColumns + ` FROM chat_handoffs`
	if len(conditions) > 0 {
		sql += ` WHERE ` + strings.Join(conditions, ` AND `)
	}
	args = append(args, q.Limit)
	return sql + fmt.Sprint(` ORDER BY updated_at DESC, id DESC LIMIT $`, len(args)), args
}
