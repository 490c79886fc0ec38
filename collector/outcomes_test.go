package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// kept is a journal in memory.
type kept struct {
	mu      sync.Mutex
	records [][]byte
}

func (k *kept) Append(_ context.Context, record []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records = append(k.records, record)
	return nil
}

// Outcomes and annotations go the way of every fact, beside others: a request
// of many becomes several records, records become one batch, and a batch that
// is written again, or comes again, changes nothing.
func TestOutcomesReachTheLedger(t *testing.T) {
	t.Parallel()
	s, rows := countedStore(t)
	w := newWriter(t, s)
	in := &kept{}
	const many = 2*recordFacts + 1
	facts := usage.Facts{Links: []usage.Link{{Run: "r", Task: "task", Arrived: noon}}}
	for i := range many {
		o := usage.Outcome{Time: noon.Add(time.Duration(i) * time.Second), Arrived: noon, Task: "task", Outcome: usage.ReviewFound}
		o.Identify("")
		a := usage.Annotation{Time: o.Time, Arrived: noon, Text: fmt.Sprint(i)}
		a.Identify("")
		facts.Outcomes, facts.Annotations = append(facts.Outcomes, o), append(facts.Annotations, a)
	}
	recorder := NewRecorder(in, w.codec)
	for _, f := range []usage.Facts{facts, {Outcomes: facts.Outcomes[:3], Annotations: facts.Annotations[:2], Events: []usage.Event{call("c", noon, usage.Labels{Task: "task"})}}} {
		if err := recorder.Record(t.Context(), &f); err != nil {
			t.Fatal(err)
		}
	}
	if len(in.records) != 3+3+1+1 {
		t.Errorf("%d records", len(in.records))
	}
	var records []record
	for _, raw := range in.records {
		records = append(records, record{raw, decoded(t, raw)})
	}
	for range 2 {
		write(t, w, merge(records))
	}
	for view, want := range map[string]uint64{"outcomes": many, "annotations": many, "spend": 1} {
		if got := rows(view); got != want {
			t.Errorf("%d rows of %s, want %d", got, view, want)
		}
	}
	if diff := cmp.Diff(map[string]usage.Nano{"task": five}, spend(t, s, "task")); diff != "" {
		t.Error(diff)
	}
}

// countedStore is a store, and what counts the rows of a view of it.
func countedStore(t *testing.T) (*clickhouse.Store, func(view string) uint64) {
	t.Helper()
	a, database := engines.ClickHouse(t), engines.Database(t)
	s, err := clickhouse.Open(clickhouse.Config{Addresses: []string{a.Addr}, Database: database, User: a.User, Password: a.Password.Reveal()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := driver.Open(&driver.Options{
		Protocol: driver.HTTP, Addr: []string{a.Addr}, Auth: driver.Auth{Database: database, Username: a.User, Password: a.Password.Reveal()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, func(view string) (n uint64) {
		if err := conn.QueryRow(t.Context(), "SELECT count() FROM "+view).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}
