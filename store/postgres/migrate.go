package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/tern/v2/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

const versionTable = "public.tatara_ledger_schema_version"

// Advisory locks, one for each store. The numbers are arbitrary and never
// change.
const (
	ledgerLock    = 0x7a7a_1ed6
	migrationLock = 0x7a7a_c4a7
)

// Migrate brings the schema to the newest version and returns how many steps
// it took. Steps only go forward, and code of the previous version works on the
// new schema: a schema that is newer than this program is left alone. Replicas
// that start at once wait for each other.
func (s *Store) Migrate(ctx context.Context) (int, error) { return s.migrateTo(ctx, latest) }

const latest = -1

func (s *Store) migrateTo(ctx context.Context, version int32) (steps int, err error) {
	err = s.locked(ctx, migrationLock, func(ctx context.Context, conn *pgxpool.Conn) error {
		steps, err = migrateConn(ctx, conn, version)
		return err
	})
	return steps, err
}

func migrateConn(ctx context.Context, conn *pgxpool.Conn, version int32) (steps int, err error) {
	m, err := migrate.NewMigrator(ctx, conn.Conn(), versionTable)
	if err != nil {
		return 0, fmt.Errorf("preparing the Postgres migrations: %w", err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, err
	}
	if err := m.LoadMigrations(files); err != nil {
		return 0, fmt.Errorf("loading the Postgres migrations: %w", err)
	}
	now, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking Postgres for the schema's version: %w", err)
	}
	if version == latest {
		version = int32(len(m.Migrations))
	}
	if now >= version {
		return 0, nil
	}
	m.OnStart = func(int32, string, string, string) { steps++ }
	if err := m.MigrateTo(ctx, version); err != nil {
		return steps, fmt.Errorf("migrating Postgres: %w", err)
	}
	return steps, nil
}

// Locked runs do while no other replica is in it, to migrate ClickHouse: of both
// stores, Postgres has the only lock that ends with its holder. The migration of
// Postgres does not wait for it.
func (s *Store) Locked(ctx context.Context, do func(context.Context) error) error {
	return s.locked(ctx, ledgerLock, func(ctx context.Context, _ *pgxpool.Conn) error { return do(ctx) })
}

func (s *Store) locked(ctx context.Context, lock int64, do func(context.Context, *pgxpool.Conn) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("reaching Postgres: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", lock); err != nil {
		return fmt.Errorf("locking the migrations: %w", err)
	}
	err = do(ctx, conn)
	// Bounded, since a Postgres that hangs must not hold a stop; it unlocks by
	// itself when the connection ends.
	unlock, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if _, e := conn.Exec(unlock, "SELECT pg_advisory_unlock($1)", lock); e != nil {
		err = errors.Join(err, fmt.Errorf("unlocking the migrations: %w", e))
	}
	return err
}
