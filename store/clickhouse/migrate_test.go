package clickhouse

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMigrateGolden(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	got := schema(t, s)
	const golden = "testdata/schema.sql"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("schema differs from %s (rewrite it with -update):\n%s", golden, diff)
	}
}

// The golden file changes with a migration that is added, and then this test
// still holds: every earlier state reaches the same schema.
func TestMigrateFromEveryState(t *testing.T) {
	t.Parallel()
	want := schema(t, newStore(t))
	for version := int64(1); version < lastMigration(t); version++ {
		s := openStore(t, engines.Database(t))
		if _, err := s.migrateTo(t.Context(), version); err != nil {
			t.Fatalf("to %d: %v", version, err)
		}
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatalf("from %d: %v", version, err)
		}
		if diff := cmp.Diff(want, schema(t, s)); diff != "" {
			t.Errorf("from version %d:\n%s", version, diff)
		}
		steps, err := s.Migrate(t.Context())
		if err != nil || steps != 0 {
			t.Errorf("a second run took %d steps, error %v; want none", steps, err)
		}
	}
}

// A crash between a statement and its version row repeats the migration.
func TestMigrateAgainAfterACrash(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	want := schema(t, s)
	if err := s.conn.Exec(t.Context(), "TRUNCATE TABLE "+versionTable); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, schema(t, s)); diff != "" {
		t.Error(diff)
	}
}

func lastMigration(t *testing.T) int64 {
	t.Helper()
	entries, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(entries))
}

func schema(t *testing.T, s *Store) string {
	t.Helper()
	var out strings.Builder
	const q = `SELECT formatQuery(create_table_query) FROM system.tables WHERE database = currentDatabase() AND name != '` +
		versionTable + `' ORDER BY name`
	err := s.query(t.Context(), "schema", q, nil, func(rows driver.Rows) error {
		var text string
		err := rows.Scan(&text)
		out.WriteString(strings.ReplaceAll(text, s.database, "tatara_ledger") + ";\n\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
