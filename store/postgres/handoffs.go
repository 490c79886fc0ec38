package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

const handoffColumns = `id, handoff_key, project, repo, kind, created_by, updated_by, body, revision, created_at, updated_at`

func scanHandoff(row pgx.CollectableRow) (h store.Handoff, err error) {
	err = row.Scan(&h.ID, &h.Key, &h.Project, &h.Repo, &h.Kind, &h.CreatedBy, &h.UpdatedBy, &h.Body, &h.Revision, &h.CreatedAt, &h.UpdatedAt)
	return h, err
}

// write is one write of a handoff, the same in every attempt.
type write struct {
	store.HandoffWrite
	actor    store.Actor
	id       uuid.UUID // of the row, if it is new
	writeID  uuid.UUID // of the write and of its event
	action   store.Action
	restored int64
}

// PutHandoff creates or replaces the handoff of a key. Errors:
// [store.ErrPrecondition], [store.ErrOtherProject], [store.ErrKeyReused].
func (s *Store) PutHandoff(ctx context.Context, a store.Actor, once *store.Once, w store.HandoffWrite) (store.Handoff, error) {
	full, err := newWrite(a, w, store.HandoffWritten)
	if err != nil {
		return store.Handoff{}, err
	}
	return create(ctx, s, a, once, full.put)
}

func newWrite(a store.Actor, w store.HandoffWrite, action store.Action) (*write, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	writeID, err := newID()
	if err != nil {
		return nil, err
	}
	return &write{HandoffWrite: w, actor: a, id: id, writeID: writeID, action: action}, nil
}

func (w *write) put(ctx context.Context, q querier, again bool) (store.Handoff, error) {
	if again {
		if h, err := w.done(ctx, q); !errors.Is(err, pgx.ErrNoRows) {
			return h, err
		}
	}
	args := []any{w.id, w.Key, w.Project, w.Repo, w.Kind, w.Body, w.actor.Name, w.writeID, w.actor.RequestID, w.restored, string(w.action)}
	statement := upsert
	switch {
	case w.If.Absent:
		statement = insertAbsent
	case w.If.Exists || len(w.If.Revisions) > 0:
		statement = replace
		args = append(args, w.If.Revisions, w.If.Exists)
	}
	rows, err := q.Query(ctx, statement+afterWrite, args...)
	if err != nil {
		return store.Handoff{}, fmt.Errorf("writing a handoff: %w", err)
	}
	h, err := pgx.CollectExactlyOneRow(rows, scanHandoff)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, pgx.ErrNoRows) && again:
		// It may have waited for an earlier attempt that was under way still.
		if h, err := w.done(ctx, q); !errors.Is(err, pgx.ErrNoRows) {
			return h, err
		}
		return h, w.refusal(ctx, q)
	case errors.Is(err, pgx.ErrNoRows):
		return h, w.refusal(ctx, q)
	case violated(err) != "":
		// An earlier attempt has just been committed, or the key was deleted
		// between the statement's start and its lock.
		return h, errors.Join(errRaced, err)
	}
	return h, fmt.Errorf("writing a handoff: %w", err)
}

// The revision goes on where those of a deleted row ended.
const newRow = `
	WITH written AS (
		INSERT INTO chat_handoffs AS h (` + handoffColumns + `)
		SELECT $1, $2, $3, $4, $5, $7, $7, $6,
			1 + coalesce((SELECT max(revision) FROM chat_handoff_revisions WHERE handoff_key = $2), 0), now, now
		FROM clock_timestamp() AS now`

// The times of a key's revisions grow, so that a list's order is that of the
// writes.
const newState = `
		SET project = $3, repo = $4, kind = $5, updated_by = $7, body = $6, revision = h.revision + 1,
			updated_at = greatest(clock_timestamp(), h.updated_at + interval '1 microsecond')
		WHERE h.project = $3`

const (
	upsert       = newRow + ` ON CONFLICT (handoff_key) DO UPDATE` + newState
	insertAbsent = newRow + ` ON CONFLICT (handoff_key) DO NOTHING`
	replace      = `
	WITH written AS (
		UPDATE chat_handoffs AS h` + newState + `
			AND h.handoff_key = $2 AND ($13 OR h.revision = ANY ($12)) AND $1::uuid IS NOT NULL`
)

// afterWrite keeps the revision, drops what is too old, and tells of it. What
// was just written is never dropped: a repeat looks for its own write there, and
// an upsert that waited while the key was rewritten and deleted, and so goes by an
// old revision, must collide. Only the oldest are looked at, however many there
// are for the moment.
const afterWrite = `
		RETURNING ` + handoffColumns + `
	), kept AS (
		INSERT INTO chat_handoff_revisions (handoff_key, revision, write_id, handoff_id, project, repo, kind, body,
			created_by, created_at, written_by, written_at, request_id, restored)
		SELECT handoff_key, revision, $8, id, project, repo, kind, body, created_by, created_at, updated_by, updated_at, $9, $10
		FROM written
	), dropped AS (
		DELETE FROM chat_handoff_revisions WHERE handoff_key = $2 AND written_at < now() - interval '1 minute'
			AND revision = ANY (ARRAY(
				SELECT revision FROM chat_handoff_revisions
				WHERE handoff_key = $2 AND revision <= (SELECT revision FROM written) - 20 ORDER BY revision LIMIT 20))
	), told AS (
		INSERT INTO chat_outbox (event_id, at, action, actor, request_id, project, repo, kind, handoff_key, revision, bytes)
		SELECT $8, updated_at, $11, updated_by, $9, project, repo, kind, handoff_key, revision, octet_length(body) FROM written
	)
	SELECT ` + handoffColumns + ` FROM written`

// done is what an earlier attempt of this write made.
func (w *write) done(ctx context.Context, q querier) (store.Handoff, error) {
	rows, err := q.Query(ctx, `
		SELECT handoff_id, handoff_key, project, repo, kind, created_by, written_by, body, revision, created_at, written_at
		FROM chat_handoff_revisions WHERE write_id = $1`, w.writeID)
	if err != nil {
		return store.Handoff{}, fmt.Errorf("looking for a write: %w", err)
	}
	h, err := pgx.CollectExactlyOneRow(rows, scanHandoff)
	if err != nil {
		return h, fmt.Errorf("looking for a write: %w", err)
	}
	return h, nil
}

// refusal says why a write changed no row.
func (w *write) refusal(ctx context.Context, q querier) error {
	var project string
	var revision int64
	err := q.QueryRow(ctx, `SELECT project, revision FROM chat_handoffs WHERE handoff_key = $1`, w.Key).Scan(&project, &revision)
	present := err == nil
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("looking why a handoff was not written: %w", err)
	}
	switch {
	case present && w.If.Absent, !present && (w.If.Exists || len(w.If.Revisions) > 0):
		return store.ErrPrecondition
	case present && project != w.Project:
		return store.ErrOtherProject
	case len(w.If.Revisions) > 0:
		return store.ErrPrecondition
	}
	return errRaced // it would be written now
}

// Handoff returns the handoff of a key, or an [store.ErrNotFound].
func (s *Store) Handoff(ctx context.Context, key string) (store.Handoff, error) {
	return retry(ctx, s, func(ctx context.Context, _ bool) (store.Handoff, error) {
		rows, err := s.pool.Query(ctx, `SELECT `+handoffColumns+` FROM chat_handoffs WHERE handoff_key = $1`, key)
		if err != nil {
			return store.Handoff{}, fmt.Errorf("reading a handoff: %w", err)
		}
		h, err := pgx.CollectExactlyOneRow(rows, scanHandoff)
		if errors.Is(err, pgx.ErrNoRows) {
			return h, &store.MissingError{What: "handoff"}
		}
		if err != nil {
			return h, fmt.Errorf("reading a handoff: %w", err)
		}
		return h, nil
	})
}

// DeleteHandoff deletes the handoff of a key and reports whether there was
// one. Its revisions stay, see [SweepConfig.KeepDeleted]. Error:
// [store.ErrPrecondition].
func (s *Store) DeleteHandoff(ctx context.Context, a store.Actor, key string, p store.Precondition) (bool, error) {
	id, err := newID()
	if err != nil {
		return false, err
	}
	demanding := p.Exists || len(p.Revisions) > 0
	return retry(ctx, s, func(ctx context.Context, again bool) (bool, error) {
		if again {
			// What is there now may be somebody's write since.
			if done, err := s.deleted(ctx, id); done || err != nil {
				return done, err
			}
		}
		var deleted bool
		err := s.pool.QueryRow(ctx, `
			WITH gone AS (
				DELETE FROM chat_handoffs WHERE handoff_key = $1 AND (cardinality($2::bigint[]) = 0 OR revision = ANY ($2))
				RETURNING project, repo, kind, handoff_key, revision
			), kept AS (
				INSERT INTO chat_handoff_deletions (delete_id, handoff_key, revision, deleted_at)
				SELECT $3, handoff_key, revision, clock_timestamp() FROM gone
			), told AS (
				INSERT INTO chat_outbox (event_id, at, action, actor, request_id, project, repo, kind, handoff_key, revision)
				SELECT $3, clock_timestamp(), $4, $5, $6, project, repo, kind, handoff_key, revision FROM gone
			)
			SELECT EXISTS (SELECT FROM gone)`,
			key, append([]int64{}, p.Revisions...), id, string(store.HandoffDeleted), a.Name, a.RequestID).Scan(&deleted)
		switch {
		case violated(err) != "":
			return false, errors.Join(errRaced, err) // an earlier attempt's
		case err != nil:
			return false, fmt.Errorf("deleting a handoff: %w", err)
		case deleted:
			return true, nil
		}
		if again {
			// It may have waited for an earlier attempt that was under way still.
			if done, err := s.deleted(ctx, id); done || err != nil {
				return done, err
			}
		}
		// Asked anew, since the statement above may have waited, and does not
		// see what came of it.
		var revision int64
		err = s.pool.QueryRow(ctx, `SELECT revision FROM chat_handoffs WHERE handoff_key = $1`, key).Scan(&revision)
		switch {
		case errors.Is(err, pgx.ErrNoRows) && demanding:
			return false, store.ErrPrecondition
		case errors.Is(err, pgx.ErrNoRows):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("looking why a handoff was not deleted: %w", err)
		case len(p.Revisions) > 0 && !slices.Contains(p.Revisions, revision):
			return false, store.ErrPrecondition
		}
		return false, errRaced // it was written since the delete began
	})
}

// deleted reports whether an earlier attempt of a delete was committed.
func (s *Store) deleted(ctx context.Context, id uuid.UUID) (done bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM chat_handoff_deletions WHERE delete_id = $1)`, id).Scan(&done)
	if err != nil {
		return false, fmt.Errorf("looking for a delete: %w", err)
	}
	return done, nil
}
