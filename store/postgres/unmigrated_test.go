package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/store"
)

// A request that comes before the schema waits for it, as for a Postgres that
// is away.
func TestRequestsWaitForTheSchema(t *testing.T) {
	t.Parallel()
	s := openStore(t, engines.Postgres(t))
	done := make(chan error, 1)
	go func() {
		_, err := s.Rooms(t.Context(), store.RoomQuery{Limit: 1})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("answered without a schema: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The migration of ClickHouse, which may hang, does not hold up that of
// Postgres.
func TestMigrateBesideTheLedgersLock(t *testing.T) {
	t.Parallel()
	s := openStore(t, engines.Postgres(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one lock for both would wait for ever
	defer cancel()
	err := s.Locked(ctx, func(ctx context.Context) error {
		_, err := s.Migrate(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
