package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// migrationLock is an advisory lock of Postgres: ClickHouse has none, and one
// replica must migrate at a time. The number is arbitrary and never changes.
const migrationLock = 0x7a7a_1ed6

// migrateUntilDone migrates, however long a store is away or refuses: ending
// would refuse facts, too, that the journal can keep. Only what is clearly
// misconfigured, such as a wrong password, is an error.
func (s *service) migrateUntilDone(ctx context.Context) error {
	policy := backoff.NewExponentialBackOff()
	policy.MaxInterval = 5 * time.Second
	warned := map[string]bool{}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := s.migrate(ctx)
		switch {
		case err == nil:
		case misconfigured(err):
			err = backoff.Permanent(err)
		case !warned[symptom(err)]:
			warned[symptom(err)] = true
			s.log.Warn("the schema cannot be migrated yet; facts are taken and stay in the journal", "error", err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(0))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // a stop is no failure
	}
	s.migrated.Store(err == nil)
	return err
}

// misconfigured reports whether err is a store's refusal that stays until
// somebody changes an address, an account or a grant.
func misconfigured(err error) bool {
	if code, ok := clickHouseCode(err); ok {
		return slices.Contains([]int32{
			192, 193, 194, 516, // unknown user, wrong password, password required, authentication failed
			291, 497, // access to the database denied, not allowed
		}, code)
	}
	if e := (&pgconn.PgError{}); errors.As(err, &e) {
		const authorization, noDatabase = "28", "3D000"
		return strings.HasPrefix(e.Code, authorization) || e.Code == noDatabase
	}
	return false
}

// symptom tells errors apart for the log. The texts of some hold a port or an
// id that is new at every attempt.
func symptom(err error) string {
	if code, ok := clickHouseCode(err); ok {
		return fmt.Sprint("ClickHouse ", code)
	}
	if e := (&pgconn.PgError{}); errors.As(err, &e) {
		return "Postgres " + e.Code
	}
	if e := (&net.OpError{}); errors.As(err, &e) {
		return e.Op + " " + e.Err.Error()
	}
	return err.Error()
}

// clickHouseCode is the number of the exception that ClickHouse answered with.
func clickHouseCode(err error) (code int32, ok bool) {
	if e := (&driver.Exception{}); errors.As(err, &e) {
		return e.Code, true
	}
	return 0, false
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
	// Bounded, since a Postgres that hangs must not hold a stop; it unlocks by
	// itself when the connection ends.
	unlock, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if _, e := conn.Exec(unlock, "SELECT pg_advisory_unlock($1)", migrationLock); e != nil {
		err = errors.Join(err, fmt.Errorf("unlocking the migrations: %w", e))
	}
	if err == nil && steps > 0 {
		s.log.Info("migrated the ClickHouse schema", "steps", steps)
	}
	return err
}
