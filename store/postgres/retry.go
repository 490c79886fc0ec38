package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/szymonrychu/tatara-ledger/store"
)

// errRaced is that of an attempt whose rows were changed by another request
// between two statements: it is repeated at once.
var errRaced = errors.New("another request was faster")

// retry runs do until it succeeds, fails for good, or [Config.RetryFor] is
// over. again tells do that an earlier attempt may have been committed.
func retry[T any](ctx context.Context, s *Store, do func(ctx context.Context, again bool) (T, error)) (T, error) {
	// The usual case costs no timer.
	attempt, cancel := context.WithTimeout(ctx, s.cfg.RetryFor)
	defer cancel()
	v, err := do(attempt, false)
	if err == nil || !transient(err) {
		return v, s.outcome(ctx, err)
	}
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 10*time.Millisecond, time.Second
	v, err = backoff.Retry(attempt, func() (T, error) {
		s.metrics.retries.Inc()
		v, err := do(attempt, true)
		if err != nil && !transient(err) {
			err = backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(0))
	return v, s.outcome(ctx, err)
}

// outcome is the error that the caller sees. ctx is the caller's.
func (s *Store) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for Postgres: %w", ctx.Err())
	case transient(err), refused(err), errors.Is(err, context.DeadlineExceeded),
		// Not by the caller: the store is being closed.
		errors.Is(err, context.Canceled), s.closed.Load():
		s.metrics.unavailable.Inc()
		return errors.Join(store.ErrUnavailable, err)
	}
	return err
}

// transient reports whether err may pass by itself.
func transient(err error) bool {
	if errors.Is(err, errRaced) {
		return true
	}
	if e := (&pgconn.PgError{}); errors.As(err, &e) {
		const connectionException = "08"
		return strings.HasPrefix(e.Code, connectionException) || slices.Contains([]string{
			"25006",          // the server has become a replica: a failover
			"40001", "40P01", // serialization failure, deadlock
			"42P01", "42703", // no such table or column: not migrated yet
			"53300",                   // too many connections
			"57P01", "57P02", "57P03", // shutting down, crashed, starting up
		}, e.Code)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return pgconn.SafeToRetry(err) || errors.As(err, &connect) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) // lost while BEGIN or COMMIT was under way
}

// refused reports whether Postgres does not let us in: no fault of the request.
func refused(err error) bool {
	const authorization, noDatabase = "28", "3D000"
	e := (&pgconn.PgError{})
	return errors.As(err, &e) && (strings.HasPrefix(e.Code, authorization) || e.Code == noDatabase)
}
