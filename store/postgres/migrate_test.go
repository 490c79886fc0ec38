package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

func TestMigrateGolden(t *testing.T) {
	t.Parallel()
	got := schema(t, newStore(t))
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
	last := lastMigration(t)
	for version := int32(0); version <= last; version++ {
		s := openStore(t, engines.Postgres(t))
		if steps, err := s.migrateTo(t.Context(), version); steps != int(version) || err != nil {
			t.Fatalf("to %d: %d steps, error %v", version, steps, err)
		}
		if steps, err := s.Migrate(t.Context()); steps != int(last-version) || err != nil {
			t.Fatalf("from %d: %d steps, error %v", version, steps, err)
		}
		if diff := cmp.Diff(want, schema(t, s)); diff != "" {
			t.Errorf("from version %d:\n%s", version, diff)
		}
		if steps, err := s.Migrate(t.Context()); steps != 0 || err != nil {
			t.Errorf("a second run took %d steps, error %v; want none", steps, err)
		}
	}
}

// A newer program may have migrated already, and this one goes on beside it.
func TestANewerSchemaIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	execute(t, s, `ALTER TABLE chat_rooms ADD COLUMN topic text`)
	execute(t, s, `UPDATE `+versionTable+` SET version = version + 1`)
	want := schema(t, s)
	if steps, err := s.Migrate(t.Context()); steps != 0 || err != nil {
		t.Errorf("%d steps, error %v", steps, err)
	}
	if diff := cmp.Diff(want, schema(t, s)); diff != "" {
		t.Error(diff)
	}
	if v := column[int32](t, s, `SELECT version FROM `+versionTable)[0]; v != lastMigration(t)+1 {
		t.Errorf("the version became %d", v)
	}
	join(t, s, newRoom(t, s).ID, "ann")
}

func TestReplicasMigrateAtOnce(t *testing.T) {
	t.Parallel()
	address := engines.Postgres(t)
	steps := make([]int, 4)
	var g errgroup.Group
	for i := range steps {
		s := openStore(t, address)
		g.Go(func() (err error) {
			steps[i], err = s.Migrate(t.Context())
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var sum int
	for _, n := range steps {
		sum += n
	}
	if sum != int(lastMigration(t)) {
		t.Errorf("the replicas took %v steps", steps)
	}
	if diff := cmp.Diff(schema(t, newStore(t)), schema(t, openStore(t, address))); diff != "" {
		t.Error(diff)
	}
}

// A step happens as a whole or not at all, wherever its connection is lost.
func TestAMigrationThatIsCut(t *testing.T) {
	t.Parallel()
	want := schema(t, newStore(t))
	for n, lost := 1, true; lost; n++ {
		address := engines.Postgres(t)
		p, through := newProxy(t, address)
		s := openStore(t, through)
		p.loseReply(n)
		_, err := s.Migrate(t.Context())
		if lost = p.disarm(); lost == (err == nil) {
			t.Errorf("answer %d: lost %v, error %v", n, lost, err)
		}
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatalf("after answer %d was lost: %v", n, err)
		}
		if diff := cmp.Diff(want, schema(t, s)); diff != "" {
			t.Errorf("after answer %d was lost:\n%s", n, diff)
		}
	}
}

// The lock ends with its holder, and what failed under it is the error.
func TestLocked(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	failure := errors.New("failure")
	if err := s.Locked(t.Context(), func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
	inside := make(chan struct{})
	leave := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		return s.Locked(t.Context(), func(context.Context) error { close(inside); <-leave; return nil })
	})
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Locked(ctx, func(context.Context) error { t.Error("two held the lock"); return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(leave)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Locked(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

func lastMigration(t *testing.T) int32 {
	t.Helper()
	entries, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	return int32(len(entries))
}

// schema is what Postgres says of the tables, but for that of the version.
func schema(t *testing.T, s *Store) string {
	t.Helper()
	return strings.Join(column[string](t, s, `
		WITH ours AS (
			SELECT c.oid, c.relname, c.relkind, c.reloptions FROM pg_class AS c
			WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'S', 'v', 'm', 'p') AND c.relname <> split_part($1, '.', 2)
		), line AS (
			SELECT relname, 0 AS section, 0 AS place, CASE relkind WHEN 'r' THEN 'TABLE ' WHEN 'S' THEN 'SEQUENCE ' ELSE relkind::text || ' ' END
				|| relname || coalesce(' WITH ' || reloptions::text, '') AS text FROM ours
			UNION ALL
			SELECT relname, 1, attnum, '    ' || attname || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
				|| CASE attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY' WHEN 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY' ELSE '' END
				|| coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), '')
			FROM ours JOIN pg_attribute ON attrelid = ours.oid AND attnum > 0 AND NOT attisdropped AND relkind <> 'S'
			LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
			UNION ALL
			SELECT relname, 2, 0, '    CONSTRAINT ' || conname || ' ' || pg_get_constraintdef(pg_constraint.oid)
			FROM ours JOIN pg_constraint ON conrelid = ours.oid AND contype <> 'n'
			UNION ALL
			SELECT relname, 3, 0, '    ' || pg_get_indexdef(indexrelid) FROM ours JOIN pg_index ON indrelid = ours.oid
			UNION ALL
			SELECT relname, 4, 0, '    ' || pg_get_triggerdef(pg_trigger.oid) FROM ours JOIN pg_trigger ON tgrelid = ours.oid AND NOT tgisinternal
		)
		SELECT text FROM line ORDER BY relname COLLATE "C", section, place, text COLLATE "C"`, versionTable), "\n") + "\n"
}
