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

// migrateUntilDone migrates a store, however long it is away or refuses:
// ending would refuse facts, too, that the journal can keep. Only what is
// clearly misconfigured, such as a wrong password, is an error.
func (s *service) migrateUntilDone(ctx context.Context, what string, migrate func(context.Context) (int, error), done chan struct{}) error {
	policy := backoff.NewExponentialBackOff()
	policy.MaxInterval = 5 * time.Second
	warned := map[string]bool{}
	steps, err := backoff.Retry(ctx, func() (int, error) {
		steps, err := migrate(ctx)
		switch {
		case err == nil:
		case misconfigured(err):
			err = backoff.Permanent(err)
		case !warned[symptom(err)]:
			warned[symptom(err)] = true
			s.log.Warn("a schema cannot be migrated yet; facts stay in the journal, and handoffs wait", "store", what, "error", err)
		}
		return steps, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(0))
	if ctx.Err() != nil {
		return nil //nolint:nilerr // a stop is no failure
	}
	if err == nil && steps > 0 {
		s.log.Info("migrated a schema", "store", what, "steps", steps)
	}
	if err == nil {
		close(done)
	}
	return err
}

// migrateLedger migrates ClickHouse under the lock that Postgres has, since
// ClickHouse has none and one replica must migrate at a time.
func (s *service) migrateLedger(ctx context.Context) (steps int, err error) {
	err = s.chat.Locked(ctx, func(ctx context.Context) error {
		steps, err = s.ledger.Migrate(ctx)
		return err
	})
	return steps, err
}

// migrated is a check that fails until a schema is there.
func migrated(done <-chan struct{}) func(context.Context) error {
	return func(context.Context) error {
		select {
		case <-done:
			return nil
		default:
			return errors.New("the schema is not migrated yet")
		}
	}
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
