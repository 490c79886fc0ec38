package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// postmaster reads the pid file of the embedded Postgres in a data folder: its
// process and its port.
func postmaster(t *testing.T, dir string) (pid, port int) {
	t.Helper()
	var lines []string
	// It is written in several steps.
	until(t, "Postgres has a pid file", func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
		lines = strings.Split(string(raw), "\n")
		return err == nil && len(lines) > 4
	})
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err == nil {
		port, err = strconv.Atoi(strings.TrimSpace(lines[3]))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pid, port
}

// connect connects to the embedded Postgres in a data folder.
func connect(t *testing.T, dir string) *pgx.Conn {
	t.Helper()
	_, port := postmaster(t, dir)
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("ledger", secret(t, dir, "postgres")),
		Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "tatara_ledger", RawQuery: "sslmode=disable",
	}
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// killPostgres kills the engine with its sessions left to notice it, and waits
// for the next one.
func killPostgres(t *testing.T, s *service) {
	t.Helper()
	pid, _ := postmaster(t, s.dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "Postgres is another process", func() bool {
		now, _ := postmaster(t, s.dir)
		return now != pid
	})
}

// cutConnections ends every connection to Postgres but its own, so often.
func cutConnections(t *testing.T, dir string, times int, between func()) {
	t.Helper()
	conn := connect(t, dir)
	defer conn.Close(t.Context()) //nolint:errcheck // it only said goodbye
	for range times {
		if _, err := conn.Exec(t.Context(), `
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid != pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
		between()
	}
}

// signalPostgres sends a signal to the engine and all its sessions. Elsewhere
// than on Linux nobody can tell which they are, and the test is skipped.
func signalPostgres(t *testing.T, dir string, sig syscall.Signal) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	pid, _ := postmaster(t, dir)
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …; a name may hold anything.
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			_ = syscall.Kill(child, sig) // it may have ended since
		}
	}
}
