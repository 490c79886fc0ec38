package dashboards

import (
	"context"
	"os"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, clickhouse.Published())
	os.Exit(engines.Run(m))
}

// ledger is an empty and migrated ledger.
type ledger struct {
	*clickhouse.Store
	*clickhouse.Reader
	conn driver.Conn
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	a := engines.ClickHouse(t)
	cfg := clickhouse.Config{Addresses: []string{a.Addr}, Database: engines.Database(t), User: a.User, Password: a.Password.Reveal()}
	s, err := clickhouse.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := driver.Open(&driver.Options{
		Protocol: driver.HTTP, Addr: cfg.Addresses,
		Auth: driver.Auth{Database: cfg.Database, Username: cfg.User, Password: cfg.Password},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{r, s, conn} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return &ledger{s, r, conn}
}

// insert writes rows of a table that has no writer here.
func (l *ledger) insert(t *testing.T, into string, rows ...[]any) {
	t.Helper()
	b, err := l.conn.PrepareBatch(t.Context(), "INSERT INTO "+into)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := b.Append(r...); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Send(); err != nil {
		t.Fatal(err)
	}
}

// options are those of the shipped price book.
func options(t testing.TB) Options {
	t.Helper()
	book, err := pricing.LoadFile("")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Prices: book.Rows()}
}

// checked runs every query of every dashboard, by dashboard.
func checked(t *testing.T, l Ledger, c Choice) map[string][]Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out := map[string][]Result{}
	for _, d := range All(options(t)) {
		results, err := Check(ctx, l, &d, c)
		if err != nil {
			t.Fatal(err)
		}
		out[d.UID] = results
	}
	return out
}
