package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/store"
)

// fill writes n handoffs over projects p0…p49, repos r0 and r1 and kinds k0…k2, a
// second apart from each other, in no order.
func fill(t *testing.T, s *Store, n int) {
	t.Helper()
	execute(t, s, `
		INSERT INTO chat_handoffs (`+handoffColumns+`)
		SELECT gen_random_uuid(), 'key-' || i, 'p' || i % 50, 'r' || i / 50 % 2, 'k' || i % 3, 'ann', 'ann',
			'body of number' || i || ' about ' || CASE WHEN i % 100 = 7 THEN 'migrations' ELSE 'something' END,
			1, at, at
		FROM generate_series(1, $1::int) AS i, LATERAL (SELECT now() - i * interval '1 second' AS at) AS t ORDER BY random()`, n)
	execute(t, s, `VACUUM ANALYZE chat_handoffs`)
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	fill(t, s, 600)
	all, err := s.Handoffs(t.Context(), store.HandoffQuery{Limit: 1000})
	if err != nil || len(all) != 600 {
		t.Fatalf("%d handoffs, error %v", len(all), err)
	}
	if !slices.IsSortedFunc(all, func(a, b store.Handoff) int { return b.UpdatedAt.Compare(a.UpdatedAt) }) {
		t.Error("not newest first")
	}
	for filters := range 1 << 6 {
		q := store.HandoffQuery{Limit: 1000}
		for i, set := range []func(){
			func() { q.Project = "p7" },
			func() { q.Repo = "r0" },
			func() { q.Kind = "k1" },
			func() { q.UpdatedBefore = all[100].UpdatedAt },
			func() { q.Text = "migration" }, // of another form than the body's
			func() { q.After = all[200].Position() },
		} {
			if filters&(1<<i) != 0 {
				set()
			}
		}
		var want []string
		for i, h := range all {
			if (q.Project == "" || h.Project == q.Project) && (q.Repo == "" || h.Repo == q.Repo) && (q.Kind == "" || h.Kind == q.Kind) &&
				(q.UpdatedBefore.IsZero() || h.UpdatedAt.Before(q.UpdatedBefore)) &&
				(q.Text == "" || strings.Contains(h.Body, "migrations")) && (q.After == store.HandoffPosition{} || i > 200) {
				want = append(want, h.Key)
			}
		}
		got, err := s.Handoffs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, keys(got)); diff != "" {
			t.Errorf("%+v:\n%s", q, diff)
		}
		q.Limit = 1
		if got, err = s.Handoffs(t.Context(), q); err != nil || !slices.Equal(keys(got), want[:min(1, len(want))]) {
			t.Errorf("%+v: %v, error %v", q, keys(got), err)
		}
	}
}

func keys(handoffs []store.Handoff) (k []string) {
	for i := range handoffs {
		k = append(k, handoffs[i].Key)
	}
	return k
}

// Rows of one moment are told apart by their ids.
func TestPagesOfRowsOfOneMoment(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	fill(t, s, 100)
	execute(t, s, `UPDATE chat_handoffs SET updated_at = '2026-01-01T00:00:00.123456Z'`)
	seen := map[string]int{}
	walk(t, s, 7, func(h store.Handoff) { seen[h.Key]++ })
	if len(seen) != 100 {
		t.Errorf("%d rows of 100 were seen", len(seen))
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s was seen %d times", key, n)
		}
	}
}

func walk(t *testing.T, s *Store, limit int, visit func(store.Handoff)) {
	t.Helper()
	q := store.HandoffQuery{Limit: limit}
	for {
		page, err := s.Handoffs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range page {
			visit(h)
		}
		if len(page) < limit {
			return
		}
		q.After = page[limit-1].Position()
	}
}

// A row that is written moves to the front, where a walk may have been. All
// others are seen once.
func TestPagesWhileRowsAreUpdated(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const rows = 300
	fill(t, s, rows)
	moved := func(i int) bool { return i%4 == 0 }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i = (i + 4) % rows {
			_, err := s.PutHandoff(ctx, actor, nil, store.HandoffWrite{Key: fmt.Sprint("key-", i+4), Project: fmt.Sprint("p", (i+4)%50), Body: "new"})
			if ctx.Err() != nil {
				done <- nil
				return
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 10 {
		seen := map[string]int{}
		walk(t, s, 11, func(h store.Handoff) { seen[h.Key]++ })
		for i := 1; i <= rows; i++ {
			if n := seen[fmt.Sprint("key-", i)]; n > 1 || (n == 0 && !moved(i)) {
				t.Errorf("key-%d was seen %d times", i, n)
			}
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestFullText(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	writeHandoff(t, s, "a", "The parser drops commas; see \"quoted words\" in O'Brien's PR #12 — naïve café")
	writeHandoff(t, s, "b", "The parser keeps commas, 100% of them & more | less: foo:bar (baz) <-> qux!")
	writeHandoff(t, s, "c", strings.Repeat("x", 60<<10)+" huge")
	for query, want := range map[string][]string{
		"parser":           {"b", "a"},
		"parsers dropping": {"a"},
		"parser -drops":    {"b"},
		"parser OR huge":   {"c", "b", "a"},
		`"quoted words"`:   {"a"},
		`"words quoted"`:   nil,
		`"unbalanced quot`: nil,
		"café":             {"a"},
		"O'Brien":          {"a"},
		"the and of":       nil, // only stop words
		"   ":              nil,
		"& | ! <-> :* ()":  nil,
		"foo:bar":          {"b"},
		"'; DROP TABLE --": nil,
		"$1 ? %s \\":       nil,
		"-":                nil,
		"missing":          nil,
	} {
		got, err := s.Handoffs(t.Context(), store.HandoffQuery{Text: query, Limit: 10})
		if diff := cmp.Diff(want, keys(got)); err != nil || diff != "" {
			t.Errorf("%q: error %v\n%s", query, err, diff)
		}
	}
}

// A list is read from an index, in its order and without a sort; words are
// looked up in theirs.
func TestListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	fill(t, s, 20_000)
	after := store.HandoffPosition{UpdatedAt: time.Now().Add(-time.Hour), ID: uuid.New()}
	for _, c := range []struct {
		q     store.HandoffQuery
		index string
	}{
		{q: store.HandoffQuery{}, index: "chat_handoffs_updated"},
		{q: store.HandoffQuery{After: after}, index: "chat_handoffs_updated"},
		{q: store.HandoffQuery{UpdatedBefore: after.UpdatedAt}, index: "chat_handoffs_updated"},
		{q: store.HandoffQuery{Project: "p1"}, index: "chat_handoffs_project"},
		{q: store.HandoffQuery{Project: "p1", After: after}, index: "chat_handoffs_project"},
		{q: store.HandoffQuery{Project: "p1", UpdatedBefore: after.UpdatedAt}, index: "chat_handoffs_project"},
		{q: store.HandoffQuery{Project: "p1", Repo: "r1"}, index: "chat_handoffs_project_repo"},
		{q: store.HandoffQuery{Project: "p1", Repo: "r1", After: after}, index: "chat_handoffs_project_repo"},
		{q: store.HandoffQuery{Text: "migrations"}, index: "chat_handoffs_words"},
		{q: store.HandoffQuery{Text: "migrations", Project: "p7"}, index: "chat_handoffs_words"},
		{q: store.HandoffQuery{Text: "something"}, index: "chat_handoffs_updated"}, // nearly every row
		{q: store.HandoffQuery{Text: "something", Project: "p7"}, index: "chat_handoffs_project"},
	} {
		c.q.Limit = 50
		sql, args := handoffList(c.q)
		plan := strings.Join(column[string](t, s, "EXPLAIN "+sql, args...), "\n")
		if !strings.Contains(plan, c.index+" ") || (c.q.Text == "" && strings.Contains(plan, "Sort")) {
			t.Errorf("%+v: want a scan of %s in\n%s", c.q, c.index, plan)
		}
	}
}

// A search that looks at too much is ended, and says so; it keeps no connection.
func TestASearchThatTakesTooLong(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	q := store.HandoffQuery{Text: "something", Limit: 50}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it was committed
	if _, err := tx.Exec(t.Context(), `LOCK TABLE chat_handoffs`); err != nil {
		t.Fatal(err)
	}
	s.searchPatience = 50 * time.Millisecond
	if _, err := s.Handoffs(t.Context(), q); !errors.Is(err, store.ErrTooBroad) {
		t.Errorf("got %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.searchPatience = time.Minute
	for range 2 * searchesAtOnce {
		if _, err := s.Handoffs(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are held", n)
	}
	// While others search, one waits for as long as for Postgres.
	for range searchesAtOnce {
		s.searches <- struct{}{}
	}
	impatient(s)
	if _, err := s.Handoffs(t.Context(), q); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
