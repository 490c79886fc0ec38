package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/health"
)

// TestHealthOfAService: a service has every metric that is kept of its health,
// and keeps them.
func TestHealthOfAService(t *testing.T) {
	t.Parallel()
	cfg, rows := testService(t)
	cfg.alerting.deliver.Alertmanagers = "http://127.0.0.1:9" // whose series exist whether or not it answers
	cfg.health.Instance, cfg.health.Every, cfg.health.Timeout = "it's me", 500*time.Millisecond, 400*time.Millisecond
	if err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	s, err := build(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	has := described(s.registry)
	for _, name := range health.Names() {
		if !has[name] {
			t.Errorf("no metric of a service is named %s", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	// Some of those that have a series from the start.
	const q = `SELECT count() FROM (SELECT DISTINCT name FROM health WHERE instance = 'it\'s me' AND name IN (
		'tatara_ledger_ready', 'tatara_ledger_ready_duration_seconds', 'tatara_ledger_journal_bytes', 'tatara_ledger_writer_lag_seconds_count',
		'tatara_ledger_postgres_connections', 'tatara_ledger_alerts_queue_length', 'tatara_ledger_alerts_delivered_total', 'chat_polls_total'))`
	for rows(q) < 8 {
		select {
		case err := <-ended:
			t.Fatal("the service ended: ", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	cancel()
	if err := errors.Join(<-ended, s.close()); err != nil {
		t.Error(err)
	}
}

// described are the names of the metrics of a registry, whether or not they have
// a series yet.
func described(reg *prometheus.Registry) map[string]bool {
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		reg.Describe(descs)
	}()
	out := map[string]bool{}
	for d := range descs {
		out[name.FindStringSubmatch(d.String())[1]] = true
	}
	return out
}

// testService is the configuration of a service over the engines of the tests,
// and what counts by a query; it counts nothing before the schema is there.
func testService(t *testing.T) (serveConfig, func(sql string) uint64) {
	t.Helper()
	a, database := engines.ClickHouse(t), engines.Database(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(a.Password.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := defaultServe()
	cfg.listen, cfg.pushListen, cfg.engine.DataDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	cfg.clickHouse = clickHouseFlags{[]string{a.Addr}, database, a.User, password}
	cfg.postgres.postgres, cfg.postgres.postgresConns = engines.Postgres(t), 4
	conn, err := driver.Open(&driver.Options{Protocol: driver.HTTP, Addr: []string{a.Addr}, Auth: driver.Auth{Username: a.User, Password: a.Password.Reveal()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return cfg, func(sql string) (n uint64) {
		const unknownDatabase, unknownTable = 81, 60
		ctx := driver.Context(t.Context(), driver.WithSettings(driver.Settings{"database": database}))
		err := conn.QueryRow(ctx, sql).Scan(&n)
		if code, ok := clickHouseCode(err); ok && (code == unknownDatabase || code == unknownTable) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}
