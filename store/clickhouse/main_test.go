package clickhouse

import (
	"os"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, Published())
	os.Exit(engines.Run(m))
}

// newStore is a migrated store in a database of its own.
func newStore(t testing.TB) *Store {
	t.Helper()
	s := openStore(t, engines.Database(t))
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func openStore(t testing.TB, database string) *Store {
	t.Helper()
	a := engines.ClickHouse(t)
	s, err := Open(Config{Addresses: []string{a.Addr}, Database: database, User: a.User, Password: a.Password.Reveal()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// at is a time in the test's present, far enough back that buckets are over.
func at(offset time.Duration) time.Time {
	return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).Add(offset)
}

// charge is a call's charge with a cost.
func charge(name string, t time.Time, kind string, cost usage.Nano) usage.Charge {
	return usage.Charge{
		ID: usage.Hash(name), FactRun: "run-" + kind, Feed: usage.FeedCall, Time: t,
		Labels:   usage.Labels{Kind: kind, Project: "demo", Repo: "acme/widgets", Task: "task-" + name, Run: "run-" + kind, Model: "m"},
		Requests: 1, Tokens: usage.Tokens{Input: 10, Output: 20, CacheRead: 30, CacheWrite: 40, CacheWrite5m: 40},
		Computed: usage.Some(cost), Cost: usage.Some(cost), Counted: true, PriceRow: "row",
	}
}

// write writes derived rows the way the writer does.
func write(t testing.TB, s *Store, mark uint64, d Derived) {
	t.Helper()
	ctx := t.Context()
	var err error
	if d.Version, err = s.Clock(ctx); err != nil {
		t.Fatal(err)
	}
	var buckets []time.Time
	for _, rows := range [][]usage.Charge{d.Charges, d.GoneCharges} {
		for i := range rows {
			buckets = append(buckets, rows[i].Bucket())
		}
	}
	for _, rows := range [][]usage.Activity{d.Activity, d.GoneActivity} {
		for i := range rows {
			buckets = append(buckets, rows[i].Bucket())
		}
	}
	if err := s.OpenMarks(ctx, mark, buckets); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendDerived(ctx, &d); err != nil {
		t.Fatal(err)
	}
	if err := s.CompleteMarks(ctx, mark, buckets, 0, mark+1); err != nil {
		t.Fatal(err)
	}
}

// total is the sum over a range that holds all of a test.
func total(t testing.TB, s *Store, by ...string) map[string]Spend {
	t.Helper()
	rows, err := s.Spend(t.Context(), SpendQuery{By: by, From: at(-60 * 24 * time.Hour), To: at(60 * 24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Spend{}
	for _, r := range rows {
		key := ""
		for _, k := range r.Keys {
			key += k + "|"
		}
		r.Keys = nil
		out[key] = r
	}
	return out
}
