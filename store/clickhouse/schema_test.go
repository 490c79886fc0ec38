package clickhouse

import (
	"slices"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
)

// Columns is what the engine says of every published view, in its order.
func TestColumnsAreThoseOfTheEngine(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, view := range Published() {
		var got []string
		err := s.query(t.Context(), "columns", `SELECT name FROM system.columns WHERE database = @db AND table = @view ORDER BY position`,
			[]any{clickhouse.Named("db", s.database), clickhouse.Named("view", view)}, func(rows driver.Rows) error {
				var name string
				err := rows.Scan(&name)
				got = append(got, name)
				return err
			})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Columns(view), got); diff != "" {
			t.Errorf("%s (-Columns +engine):\n%s", view, diff)
		}
	}
	if slices.Contains(Published(), "charges") || Columns("charges") != nil {
		t.Error("a table is published")
	}
}
