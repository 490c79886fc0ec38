package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// migrationLock is an advisory lock of Postgres: ClickHouse has none, and one
// replica must migrate at a time. The number is arbitrary and never changes.
const migrationLock = 0x7a7a_1ed6

// migrateUntilDone migrates, however long a store is away. What a retry cannot
// mend, such as a wrong password, is an error.
func (s *service) migrateUntilDone(ctx context.Context) error {
	policy := backoff.NewExponentialBackOff()
	policy.MaxInterval = 5 * time.Second
	warned := false
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := s.migrate(ctx)
		switch {
		case err == nil:
		case !clickhouse.IsAway(err) && !postgresAway(err):
			err = backoff.Permanent(err)
		case !warned:
			warned = true
			s.log.Warn("a store is away; facts are taken and stay in the journal", "error", err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(0))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // a stop is no failure
	}
	s.migrated.Store(err == nil)
	return err
}

// postgresAway reports whether err says that Postgres starts, stops or hung up.
// What it has of the network in common with ClickHouse is left to
// [clickhouse.IsAway].
func postgresAway(err error) bool {
	const operatorIntervention = "57P" // the class of starts and stops
	if e := (&pgconn.PgError{}); errors.As(err, &e) {
		return strings.HasPrefix(e.Code, operatorIntervention)
	}
	return pgconn.SafeToRetry(err)
}

// schema reports whether the ledger has its schema: until then queries cannot
// be answered.
func (s *service) schema(context.Context) error {
	if !s.migrated.Load() {
		return errors.New("the schema is not migrated yet")
	}
	return nil
}

func (s *service) migrate(ctx context.Context) error {
	conn, err := s.pg.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("reaching Postgres: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		return fmt.Errorf("locking the migrations: %w", err)
	}
	steps, err := s.ledger.Migrate(ctx)
	if _, e := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrationLock); e != nil {
		err = errors.Join(err, fmt.Errorf("unlocking the migrations: %w", e))
	}
	if err == nil && steps > 0 {
		s.log.Info("migrated the ClickHouse schema", "steps", steps)
	}
	return err
}
