package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

// Revisions are those of a key that are kept, newest first, of a deleted one
// too. A key that never was is an [store.ErrNotFound].
func (s *Store) Revisions(ctx context.Context, key string) ([]store.Revision, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) ([]store.Revision, error) {
		rows, err := s.pool.Query(ctx, `
			SELECT revision, project, repo, kind, body, written_by, written_at, request_id, restored
			FROM chat_handoff_revisions WHERE handoff_key = $1 ORDER BY revision DESC LIMIT $2`, key, store.KeptRevisions)
		if err != nil {
			return nil, fmt.Errorf("reading revisions: %w", err)
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r store.Revision, err error) {
			err = row.Scan(&r.Revision, &r.Project, &r.Repo, &r.Kind, &r.Body, &r.WrittenBy, &r.WrittenAt, &r.RequestID, &r.Restored)
			return r, err
		})
		if err != nil {
			return nil, fmt.Errorf("reading revisions: %w", err)
		}
		if len(found) == 0 {
			return nil, &store.MissingError{What: "handoff"}
		}
		return found, nil
	})
}

// RestoreHandoff writes an earlier revision again, as a new one. Errors:
// [store.ErrNotFound] for a revision that is not kept, and those of
// [Store.PutHandoff].
func (s *Store) RestoreHandoff(ctx context.Context, a store.Actor, once *store.Once, key string, revision int64, p store.Precondition) (store.Handoff, error) {
	full, err := newWrite(a, store.HandoffWrite{Key: key, If: p}, store.HandoffRestored)
	if err != nil {
		return store.Handoff{}, err
	}
	full.restored = revision
	return create(ctx, s, a, once, func(ctx context.Context, q querier, again bool) (store.Handoff, error) {
		if again {
			// The revision may be dropped by now, by the earlier attempt itself.
			if h, err := full.done(ctx, q); !errors.Is(err, pgx.ErrNoRows) {
				return h, err
			}
		}
		err := q.QueryRow(ctx, `
			SELECT project, repo, kind, body FROM chat_handoff_revisions WHERE handoff_key = $1 AND revision = $2
				AND revision > (SELECT max(revision) FROM chat_handoff_revisions WHERE handoff_key = $1) - $3`,
			key, revision, store.KeptRevisions).Scan(&full.Project, &full.Repo, &full.Kind, &full.Body)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.Handoff{}, &store.MissingError{What: "revision"}
		}
		if err != nil {
			return store.Handoff{}, fmt.Errorf("reading a revision: %w", err)
		}
		return full.put(ctx, q, again)
	})
}
