package clickhouse

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"math"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

//go:embed migrations/*.sql
var migrations embed.FS

const versionTable = "schema_migrations"

// Migrate creates the database where it is missing, brings the schema to the newest version and returns how many steps
// it took; on a current schema it does nothing. Steps only go forward, and
// code of the previous version works on the new schema. ClickHouse has no
// transactions: every statement can be run again after a crash between two.
// The caller sees to it that one replica migrates at a time.
func (s *Store) Migrate(ctx context.Context) (int, error) { return s.migrateTo(ctx, latest) }

// latest is above every migration's number.
const latest = math.MaxInt64

func (s *Store) migrateTo(ctx context.Context, version int64) (int, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, err
	}
	versions, err := database.NewStore(database.DialectClickHouse, versionTable)
	if err != nil {
		return 0, err
	}
	if err := createDatabase(ctx, *s.options, s.database); err != nil {
		return 0, err
	}
	db := clickhouse.OpenDB(s.options)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectCustom, db, files, goose.WithStore(versions))
	if err != nil {
		return 0, fmt.Errorf("loading the ClickHouse migrations: %w", err)
	}
	done, err := p.UpTo(ctx, version)
	if err != nil {
		return len(done), fmt.Errorf("migrating ClickHouse: %w", err)
	}
	return len(done), nil
}
