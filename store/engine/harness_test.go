package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// enginesDir is where the tests install, once for all of them; empty means the
// default.
func enginesDir() string { return os.Getenv("TATARA_LEDGER_ENGINES_DIR") }

// temporary returns a folder that other users may pass through, unlike
// t.TempDir.
func temporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine-") //nolint:usetesting // other users may not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// testConfig is a configuration with the real Postgres and the fake ClickHouse.
func testConfig(t *testing.T) Config {
	t.Helper()
	if _, err := Install(t.Context(), enginesDir(), t.Output()); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.EnginesDir = enginesDir()
	cfg.DataDir = filepath.Join(temporary(t), "data")
	cfg.ClickHouse.Port = 0
	cfg.ClickHouse.Library = filepath.Join(filepath.Dir(cfg.DataDir), fakeLibrary)
	write(t, cfg.ClickHouse.Library, "")
	cfg.StartTimeout = time.Minute
	return cfg
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// running are started engines whose Run is under way.
type running struct {
	*Engines
	stop func() error // ends Run; more than once is fine
}

func start(t *testing.T, cfg Config) running {
	t.Helper()
	engines, err := Start(t.Context(), cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engines.Run(ctx) }()
	r := running{Engines: engines, stop: sync.OnceValue(func() error {
		cancel()
		return <-done
	})}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// parent starts the test binary as a parent of engines and waits until they are
// ready.
func parent(t *testing.T, cfg Config) (*exec.Cmd, report) {
	t.Helper()
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), parentEnv+"="+string(config))
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	return cmd, r
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
}

func queryInt(t *testing.T, dsn, sql string) int {
	t.Helper()
	conn := connect(t, dsn)
	defer conn.Close(context.Background()) //nolint:errcheck // a test
	var n int
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually polls until ok, because what it waits for is another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// processesNaming lists the live processes whose command line contains text.
func processesNaming(t *testing.T, text string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		raw, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && strings.Contains(string(raw), text) {
			found = append(found, entry.Name()+" "+strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return found
}

func modeOf(t *testing.T, path string) (mode os.FileMode, uid int) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm(), int(info.Sys().(*syscall.Stat_t).Uid)
}

func needLinux(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/exe"); errors.Is(err, os.ErrNotExist) {
		t.Skip("needs /proc")
	}
}
