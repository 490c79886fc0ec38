package engine

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestChildKilled(t *testing.T) {
	cfg := testConfig(t)
	r := start(t, cfg)
	dsn := r.Postgres().DSN()
	execute(t, dsn, `CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)`)
	if post(t, r.ClickHouse(), "kept") != http.StatusOK {
		t.Fatal("ClickHouse does not take a row")
	}
	for _, c := range r.children {
		before := c.current().pid
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, c.name+" is started again", func() bool { return c.up.Load() && c.current().pid != before })
	}
	if got := queryInt(t, dsn, `SELECT n FROM kept`); got != 7 {
		t.Errorf("got %d", got)
	}
	rows, err := os.ReadFile(filepath.Join(cfg.DataDir, "clickhouse", "rows"))
	if err != nil || !strings.Contains(string(rows), "kept\n") {
		t.Errorf("rows of ClickHouse: %q, %v", rows, err)
	}
	for name, n := range r.Restarts() {
		if n < 1 {
			t.Errorf("%s: %d restarts", name, n)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Engines)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, family := range families {
		got[family.GetName()] = len(family.GetMetric())
	}
	want := map[string]int{"tatara_ledger_engine_restarts_total": 2, "tatara_ledger_engine_up": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics:\n%s", diff)
	}
}

// A session that computes does not notice that its server was killed, and holds
// the memory that a new server wants.
func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	needLinux(t)
	cfg := testConfig(t)
	cfg.ClickHouse.Disabled = true
	r := start(t, cfg)
	conn := connect(t, r.Postgres().DSN())
	busy := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), `DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$`)
		busy <- err
	}()
	eventually(t, "the session computes", func() bool {
		return queryInt(t, r.Postgres().DSN(), `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO%' AND state = 'active'`) == 1
	})
	c := r.children[0]
	before := c.current().pid
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Postgres is started again", func() bool { return c.up.Load() && c.current().pid != before })
	if <-busy == nil {
		t.Error("the session of the killed server ended well")
	}
}

// An engine that keeps dying is tried until what ails it is repaired, and does
// not keep the service from stopping.
func TestChildKeepsDying(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Postgres.Disabled = true
	r := start(t, cfg)
	if err := os.Remove(cfg.ClickHouse.Library); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(r.pids()["clickhouse"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three attempts", func() bool { return r.Restarts()["clickhouse"] >= 3 })
	if r.children[0].up.Load() {
		t.Error("an engine that does not run is up")
	}
	write(t, cfg.ClickHouse.Library, "")
	eventually(t, "it is up again", func() bool { return r.children[0].up.Load() })

	if err := os.Remove(cfg.ClickHouse.Library); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(r.pids()["clickhouse"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its death is noticed", func() bool { return !r.children[0].up.Load() })
	begin := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("stopping took %s", took)
	}
}
