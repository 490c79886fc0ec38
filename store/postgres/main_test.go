package postgres

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
)

var (
	engines *enginetest.Engines
	update  = flag.Bool("update", false, "rewrite the golden files")
)

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, nil)
	os.Exit(engines.Run(m))
}

// openStore opens a store on the database at address, which no test but the
// caller's uses.
func openStore(t *testing.T, address string) *Store {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL = address
	s, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// newStore opens a store on a database of its own.
func newStore(t *testing.T) *Store {
	t.Helper()
	s := openStore(t, engines.Postgres(t))
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
