package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/szymonrychu/tatara-ledger/store"
)

const alertColumns = `a.task, a.alert, a.threshold, l.project, l.repo, l.kind, a.state, a.episode, a.value, a."limit",
	a.summary, a.description, a.as_of, a.starts_at, a.ends_at, a.reason`

func scanAlert(row pgx.CollectableRow) (a store.Alert, err error) {
	var ends *time.Time
	err = row.Scan(&a.Task, &a.Alert, &a.Threshold, &a.Project, &a.Repo, &a.Kind, &a.State, &a.Episode, &a.Value, &a.Limit,
		&a.Summary, &a.Description, &a.AsOf, &a.StartsAt, &ends, &a.Reason)
	a.EndsAt = orZero(ends)
	return a, err
}

// AlertView reads overrides and ends that were set after a time, and the alerts
// that fire or were resolved within a while, all of one moment. Nothing is
// retried inside: the caller looks again soon.
func (s *Store) AlertView(ctx context.Context, after time.Time, while time.Duration) (v store.AlertView, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`
			SELECT clock_timestamp(), coalesce((
				SELECT hash FROM alert_configurations WHERE seen_at > now() - $1::interval ORDER BY started_at DESC, hash LIMIT 1), '')`, judgeLives)
		b.Queue(`SELECT `+overrideColumns+` FROM task_ceilings WHERE set_at > $1`, after)
		b.Queue(`SELECT task, ended_at, ended_by FROM task_ends WHERE ended_at > $1`, after)
		b.Queue(`
			SELECT `+alertColumns+` FROM task_alerts AS a JOIN task_labels AS l USING (task) WHERE a.state = 'firing'
			UNION ALL
			SELECT `+alertColumns+` FROM task_alerts AS a JOIN task_labels AS l USING (task)
			WHERE a.state = 'resolved' AND a.ends_at > now() - $1::interval`, while)
		r := tx.SendBatch(ctx, b)
		err := readView(r, &v)
		if e := r.Close(); err == nil {
			err = e
		}
		return err
	})
	if err != nil {
		return v, fmt.Errorf("reading ceilings and alerts: %w", err)
	}
	return v, nil
}

func readView(r pgx.BatchResults, v *store.AlertView) (err error) {
	if err = r.QueryRow().Scan(&v.At, &v.Judge); err != nil {
		return err
	}
	if v.Overrides, err = collect(r, scanOverride); err != nil {
		return err
	}
	if v.Ends, err = collect(r, scanEnd); err != nil {
		return err
	}
	v.Alerts, err = collect(r, scanAlert)
	return err
}

func collect[T any](r pgx.BatchResults, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, err := r.Query()
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// judgeLives is for how long a configuration counts after its last replica was
// alive, so that one that does not start leaves the judgement to the others.
const judgeLives = 30 * time.Second

// JudgeBy says that a replica lives whose alerts are judged by a configuration;
// started, that it has just started with it.
func (s *Store) JudgeBy(ctx context.Context, hash string, started bool) error {
	_, err := s.pool.Exec(ctx, `
		INSERT INTO alert_configurations AS c (hash, started_at, seen_at) VALUES ($1, clock_timestamp(), clock_timestamp())
		ON CONFLICT (hash) DO UPDATE SET seen_at = clock_timestamp(), started_at = CASE WHEN $2 THEN clock_timestamp() ELSE c.started_at END`,
		hash, started)
	if err != nil {
		return fmt.Errorf("saying by what alerts are judged: %w", err)
	}
	return nil
}

// ChangeAlerts makes alerts fire and resolve, each if it is as it was seen, and
// returns those that changed. What another replica changed first is left out.
// while is that of the view: an alert that was resolved longer ago begins anew
// though nobody has seen it. tell keeps the changes for the webhook, too. Nothing
// is retried inside: a repeat changes only what is not changed yet. Error:
// [store.ErrUnstorable], of all changes together.
func (s *Store) ChangeAlerts(ctx context.Context, changes []store.AlertChange, while time.Duration, tell bool) (done []store.Alert, err error) {
	// Always in the same order, so that replicas do not wait for each other.
	changes = slices.SortedFunc(slices.Values(changes), func(a, b store.AlertChange) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Alert.Alert, b.Alert.Alert), cmp.Compare(a.Threshold, b.Threshold))
	})
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		for i := range changes {
			if c := &changes[i]; c.State == store.Firing {
				b.Queue(freeze, c.Task, c.Project, c.Repo, c.Kind)
				b.Queue(fire, c.Task, c.Alert.Alert, c.Threshold, c.Seen, c.Value, c.Limit, c.Summary, c.Description, c.AsOf, tell, while)
			} else {
				b.Queue(resolveAlert, c.Task, c.Alert.Alert, c.Threshold, c.Seen, c.AsOf, c.Reason, tell)
			}
		}
		r := tx.SendBatch(ctx, b)
		err := func() error {
			for i := range changes {
				if changes[i].State == store.Firing {
					if _, err := r.Exec(); err != nil {
						return err
					}
				}
				changed, err := collect(r, scanAlert)
				if err != nil {
					return err
				}
				done = append(done, changed...)
			}
			return nil
		}()
		if e := r.Close(); err == nil {
			err = e
		}
		return err
	})
	const dataException = "22"
	if e := (&pgconn.PgError{}); errors.As(err, &e) && strings.HasPrefix(e.Code, dataException) {
		err = errors.Join(store.ErrUnstorable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("changing alerts: %w", err)
	}
	return done, nil
}

const freeze = `INSERT INTO task_labels (task, project, repo, kind, frozen_at) VALUES ($1, $2, $3, $4, clock_timestamp()) ON CONFLICT DO NOTHING`

// Who saw an older ledger than the one that an alert was judged by changes
// nothing.
const (
	fire = `
	WITH a AS (
		INSERT INTO task_alerts AS old (task, alert, threshold, episode, state, value, "limit", summary, description, as_of, starts_at, reason)
		VALUES ($1, $2, $3, $4::bigint + 1, 'firing', $5, $6, $7, $8, $9, clock_timestamp(), '')
		ON CONFLICT (task, alert, threshold) DO UPDATE SET episode = old.episode + 1, state = 'firing', value = excluded.value,
			"limit" = excluded."limit", summary = excluded.summary, description = excluded.description, as_of = excluded.as_of,
			starts_at = excluded.starts_at, ends_at = NULL, reason = ''
		WHERE old.state = 'resolved' AND old.as_of <= excluded.as_of
			AND (old.episode = $4 OR $4 = 0 AND old.ends_at <= now() - $11::interval)
		RETURNING *
	), told AS (
		INSERT INTO task_alert_outbox (` + transitionColumns + `, to_ledger, to_webhook)
		SELECT gen_random_uuid(), a.starts_at, ` + alertColumns + `, true, $10 FROM a JOIN task_labels AS l USING (task)
	)
	SELECT ` + alertColumns + ` FROM a JOIN task_labels AS l USING (task)`
	resolveAlert = `
	WITH a AS (
		UPDATE task_alerts SET state = 'resolved', ends_at = greatest(clock_timestamp(), starts_at), as_of = $5, reason = $6
		WHERE task = $1 AND alert = $2 AND threshold = $3 AND state = 'firing' AND episode = $4 AND as_of <= $5
		RETURNING *
	), told AS (
		INSERT INTO task_alert_outbox (` + transitionColumns + `, to_ledger, to_webhook)
		SELECT gen_random_uuid(), a.ends_at, ` + alertColumns + `, true, $7 FROM a JOIN task_labels AS l USING (task)
	)
	SELECT ` + alertColumns + ` FROM a JOIN task_labels AS l USING (task)`
	// In the order of alertColumns, after the event's own.
	transitionColumns = `event_id, at, task, alert, threshold, project, repo, kind, state, episode, value, "limit",
		summary, description, as_of, starts_at, ends_at, reason`
)
