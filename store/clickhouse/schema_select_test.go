package clickhouse

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReader(t *testing.T) {
	t.Parallel()
	r, err := newStore(t).Reader()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	got, err := r.Select(t.Context(), `SELECT number, CAST(NULL, 'Nullable(UInt8)') AS n, if(number = 0, 'it''s', '🙂') AS text FROM numbers(2)`, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := &Selection{
		Columns: []string{"number", "n", "text"}, Types: []string{"UInt64", "Nullable(UInt8)", "String"},
		Rows: [][]any{{uint64(0), (*uint8)(nil), "it's"}, {uint64(1), (*uint8)(nil), "🙂"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Select(t.Context(), "SELECT number FROM numbers(3)", 2); !errors.Is(err, ErrTooManyRows) {
		t.Errorf("three rows of two: %v", err)
	}
	if got, err := r.Select(t.Context(), "SELECT time FROM spend", 2); err != nil || len(got.Rows) != 0 {
		t.Errorf("an empty view: %v", err)
	}
	if _, err := r.Select(t.Context(), "SELECT cost_euro FROM spend", 2); err == nil {
		t.Error("a column that there is not was read")
	}
}
