package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/store"
)

// fleetPart is an element of fleet_runs.parts.
type fleetPart struct {
	store.FleetLabels
	Amounts store.FleetAmounts `json:"amounts"`
}

// holderPatience is for how long a holder may leave Postgres waiting within a
// transaction: one that stands still must not lock the next holder out.
const holderPatience = 5 * time.Second

// asHolder runs do in a transaction that no other holder's can run beside, if
// epoch is still the holder's. Like everything of the fleet it retries nothing:
// the caller waits as it likes.
func (s *Store) asHolder(ctx context.Context, epoch int64, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var now int64
		err := tx.QueryRow(ctx, `SELECT epoch FROM fleet_holder
			WHERE set_config('idle_in_transaction_session_timeout', $1, true) IS NOT NULL FOR UPDATE`, milliseconds(holderPatience)).Scan(&now)
		if err != nil {
			return fmt.Errorf("asking who exposes the fleet's counters: %w", err)
		}
		if now != epoch {
			return store.ErrNotHolder
		}
		return do(tx)
	})
}

// FleetWatermark is the ledger's clock of which all that was spent before is
// counted; zero means that the ledger was never read to its end.
func (s *Store) FleetWatermark(ctx context.Context) (uint64, error) {
	var mark *int64
	if err := s.pool.QueryRow(ctx, `SELECT watermark FROM fleet_holder`).Scan(&mark); err != nil {
		return 0, fmt.Errorf("reading how far the fleet is counted: %w", err)
	}
	if mark == nil {
		return 0, nil
	}
	return uint64(*mark), nil
}

// SetFleetWatermark moves the watermark forward and forgets the runs whose last
// charge is older than forget. It returns [store.ErrNotHolder] if epoch is over.
func (s *Store) SetFleetWatermark(ctx context.Context, epoch int64, mark uint64, forget time.Time) error {
	return s.asHolder(ctx, epoch, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE fleet_holder SET watermark = greatest(watermark, $1)`, int64(mark)); err != nil {
			return fmt.Errorf("writing how far the fleet is counted: %w", err)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM fleet_runs WHERE last_charge < $1`, forget); err != nil {
			return fmt.Errorf("forgetting runs: %w", err)
		}
		return nil
	})
}

// CountFleet has count compare what was counted of runs with what the ledger
// has: it gets those of the runs that are known, and returns what is to be known
// of them from now on and by how much the counters rise. All of it happens, or
// nothing. It returns [store.ErrNotHolder] if epoch is over.
func (s *Store) CountFleet(ctx context.Context, epoch int64, runs []string,
	count func(known map[string]store.FleetRun) ([]store.FleetRun, []store.FleetIncrease),
) error {
	return s.asHolder(ctx, epoch, func(tx pgx.Tx) error {
		known, err := fleetRuns(ctx, tx, runs)
		if err != nil {
			return err
		}
		now, rises := count(known)
		if err := raiseFleet(ctx, tx, rises); err != nil {
			return err
		}
		return putFleetRuns(ctx, tx, now)
	})
}

func fleetRuns(ctx context.Context, tx pgx.Tx, runs []string) (map[string]store.FleetRun, error) {
	rows, err := tx.Query(ctx, `SELECT run, high, parts, last_charge FROM fleet_runs WHERE run = ANY ($1)`, runs)
	if err != nil {
		return nil, fmt.Errorf("reading what was counted: %w", err)
	}
	var (
		known = map[string]store.FleetRun{}
		run   string
		high  []int64
		parts []byte
		last  time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&run, &high, &parts, &last}, func() error {
		var list []fleetPart
		if err := json.Unmarshal(parts, &list); err != nil {
			return fmt.Errorf("decoding the amounts of a run: %w", err)
		}
		r := store.FleetRun{Run: run, Parts: make(map[store.FleetLabels]store.FleetAmounts, len(list)), LastCharge: last}
		copy(r.High[:], high)
		for _, p := range list {
			r.Parts[p.FleetLabels] = p.Amounts
		}
		known[run] = r
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading what was counted: %w", err)
	}
	return known, nil
}

func putFleetRuns(ctx context.Context, tx pgx.Tx, runs []store.FleetRun) error {
	var batch pgx.Batch
	for _, r := range runs {
		list := make([]fleetPart, 0, len(r.Parts))
		for l, a := range r.Parts {
			list = append(list, fleetPart{l, a})
		}
		parts, err := json.Marshal(list)
		if err != nil {
			return fmt.Errorf("encoding the amounts of a run: %w", err)
		}
		batch.Queue(`INSERT INTO fleet_runs (run, high, parts, last_charge) VALUES ($1, $2, $3, $4)
			ON CONFLICT (run) DO UPDATE SET high = excluded.high, parts = excluded.parts, last_charge = excluded.last_charge`,
			r.Run, r.High[:], parts, r.LastCharge)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("writing what was counted: %w", err)
	}
	return nil
}

// raiseFleet adds to the counters. One that is new was shown its past.
func raiseFleet(ctx context.Context, tx pgx.Tx, rises []store.FleetIncrease) error {
	var batch pgx.Batch
	for _, r := range rises {
		var shown *int64
		if r.Past > 0 {
			shown = &r.Past
		}
		// A counter at its end stays there: better than a holder that can never
		// write again.
		batch.Queue(`INSERT INTO fleet_series AS s (amount, project, repo, kind, model, value, shown) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (amount, project, repo, kind, model) DO UPDATE SET
				value = least(s.value::numeric + excluded.value, 9223372036854775807)::bigint,
				shown = CASE WHEN excluded.shown IS NULL THEN s.shown ELSE least(coalesce(s.shown, 0)::numeric + excluded.shown, 9223372036854775807)::bigint END`,
			int16(r.Amount), r.Project, r.Repo, r.Kind, r.Model, r.Value, shown)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("raising the fleet's counters: %w", err)
	}
	return nil
}

// ShowFleet returns the counters as a scrape is to see them, and remembers that
// it did: one that no scrape has seen yet is 0. With rise the others have their
// present values; without it, those of the last scrape, by whomever it was
// answered. It returns [store.ErrNotHolder] if epoch is over.
func (s *Store) ShowFleet(ctx context.Context, epoch int64, rise bool) (series []store.FleetSeries, err error) {
	err = s.asHolder(ctx, epoch, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE fleet_series SET shown = CASE WHEN shown IS NULL THEN 0 ELSE value END
			WHERE shown IS NULL OR ($1 AND shown <> value)`, rise)
		if err != nil {
			return fmt.Errorf("noting what a scrape sees: %w", err)
		}
		rows, err := tx.Query(ctx, `SELECT amount, project, repo, kind, model, shown FROM fleet_series`)
		if err != nil {
			return fmt.Errorf("reading the fleet's counters: %w", err)
		}
		var (
			row    store.FleetSeries
			amount int16
		)
		_, err = pgx.ForEachRow(rows, []any{&amount, &row.Project, &row.Repo, &row.Kind, &row.Model, &row.Value}, func() error {
			row.Amount = store.FleetAmount(amount)
			series = append(series, row)
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading the fleet's counters: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return series, nil
}

// fleetLock is the advisory lock of the holder: see ledgerLock.
const fleetLock = 0x7a7a_f1ee

// FleetSession is a connection of its own, which can hold the lock under which
// one replica exposes the fleet's counters. Postgres gives the lock back when
// the session ends. One goroutine owns it.
type FleetSession struct{ conn *pgx.Conn }

// OpenFleetSession connects. Postgres ends the session after silence without a
// call of [FleetSession.Ping] or [FleetSession.Lead], so that the lock does not
// outlive a machine that vanished or stands still.
func (s *Store) OpenFleetSession(ctx context.Context, silence time.Duration) (*FleetSession, error) {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	f := &FleetSession{conn}
	// The first is for a session that waits, the second for one that died within
	// a statement.
	_, err = conn.Exec(ctx, `SELECT set_config('idle_session_timeout', $1, false), set_config('tcp_user_timeout', $1, false)`,
		milliseconds(silence))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bounding a session's silence: %w", err), f.Close())
	}
	return f, nil
}

// milliseconds is a time as settings of Postgres have it.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// Lead takes the lock and begins a new epoch, which ends what earlier holders
// may write. ok is false if another session has the lock.
func (f *FleetSession) Lead(ctx context.Context) (epoch int64, ok bool, err error) {
	if err := f.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(fleetLock)).Scan(&ok); err != nil {
		return 0, false, fmt.Errorf("taking the fleet's lock: %w", err)
	}
	if !ok {
		return 0, false, nil
	}
	if err := f.conn.QueryRow(ctx, `UPDATE fleet_holder SET epoch = epoch + 1 RETURNING epoch`).Scan(&epoch); err != nil {
		return 0, false, fmt.Errorf("beginning an epoch of the fleet's counters: %w", err)
	}
	return epoch, true, nil
}

// Ping reports whether the session lasts, and with it the lock.
func (f *FleetSession) Ping(ctx context.Context) error {
	if err := f.conn.Ping(ctx); err != nil {
		return fmt.Errorf("asking whether the fleet's lock is held: %w", err)
	}
	return nil
}

// Close ends the session, and with it the lock.
func (f *FleetSession) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := f.conn.Close(ctx); err != nil {
		return fmt.Errorf("ending the fleet's session: %w", err)
	}
	return nil
}
