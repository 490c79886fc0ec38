// Package enginetest gives tests the real engines: one ClickHouse and one
// Postgres per test binary, started at the first use, and a database per test.
package enginetest

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// Engines are the engines of a test binary. Make one in TestMain.
type Engines struct {
	published []string
	start     sync.Once
	running   *engine.Engines
	err       error
	dir       string
	cancel    context.CancelFunc
	done      chan error
	databases atomic.Int64
}

// Main runs the tests of a package that uses engines, and exits. The test
// binary is its own ClickHouse child, so Main must come first in TestMain.
// published are the views that the restricted account may read.
func Main(_ *testing.M, published []string) *Engines {
	if len(os.Args) > 2 && os.Args[1] == "engines" && os.Args[2] == "clickhouse" {
		exit(child(os.Args[3:], published))
	}
	return &Engines{published: published}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(args, published []string) error {
	var c engine.ClickHouseChild
	fs := pflag.NewFlagSet("clickhouse", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return c.Serve(ctx, published, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
}

// Run runs the tests and stops the engines. It returns the exit code.
func (e *Engines) Run(m *testing.M) int {
	code := m.Run()
	if e.running == nil {
		return code
	}
	e.cancel()
	if err := <-e.done; err != nil {
		fmt.Fprintln(os.Stderr, "stopping the engines:", err)
		code = max(code, 1)
	}
	if err := os.RemoveAll(e.dir); err != nil {
		fmt.Fprintln(os.Stderr, "removing the engines' data:", err)
	}
	return code
}

func (e *Engines) startOnce(t testing.TB) {
	t.Helper()
	e.start.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if _, e.err = engine.Install(ctx, os.Getenv("TATARA_LEDGER_ENGINES_DIR"), os.Stderr); e.err != nil {
			return
		}
		if e.dir, e.err = os.MkdirTemp("", "enginetest"); e.err != nil { //nolint:usetesting // it outlives the test
			return
		}
		// Engines of root run as another user, who must reach the folder.
		if e.err = os.Chmod(e.dir, 0o711); e.err != nil {
			return
		}
		cfg := engine.DefaultConfig()
		cfg.DataDir, cfg.EnginesDir = e.dir+"/data", os.Getenv("TATARA_LEDGER_ENGINES_DIR")
		cfg.ClickHouse.Port = 0
		if e.running, e.err = engine.Start(ctx, cfg, slog.New(slog.DiscardHandler)); e.err != nil {
			return
		}
		var run context.Context
		run, e.cancel = context.WithCancel(context.Background())
		e.done = make(chan error, 1)
		go func() { e.done <- e.running.Run(run) }()
	})
	if e.err != nil {
		t.Fatalf("starting the engines: %v", e.err)
	}
}

// ClickHouse is the address of the engine; the account may do everything.
func (e *Engines) ClickHouse(t testing.TB) engine.ClickHouseAddress {
	t.Helper()
	e.startOnce(t)
	return e.running.ClickHouse()
}

// Database is a name that no other test of this binary uses.
func (e *Engines) Database(t testing.TB) string {
	t.Helper()
	return "test_" + strings.ToLower(strconv.FormatInt(e.databases.Add(1), 36))
}

// Postgres is the address of a new and empty database.
func (e *Engines) Postgres(t testing.TB) string {
	t.Helper()
	e.startOnce(t)
	name := e.Database(t)
	conn, err := pgx.Connect(t.Context(), e.running.Postgres().DSN())
	if err != nil {
		t.Fatalf("reaching Postgres: %v", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("creating a database: %v", err)
	}
	address, err := url.Parse(e.running.Postgres().DSN())
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + name
	return address.String()
}
