package engine

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestStartErrors(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // after the parallel subtests
	port := taken.Addr().(*net.TCPAddr).Port

	tests := map[string]struct {
		change func(*testing.T, *Config)
		want   []string
	}{
		"ClickHouse's port is taken": {
			func(_ *testing.T, c *Config) { c.ClickHouse.Port = port },
			[]string{strconv.Itoa(port), "--clickhouse-port"},
		},
		"Postgres's port is taken": {
			func(_ *testing.T, c *Config) { c.Postgres.Port = port },
			[]string{strconv.Itoa(port), "--postgres-port"},
		},
		"ClickHouse dies": {
			func(_ *testing.T, c *Config) { c.ClickHouse.Library = sibling(c.ClickHouse.Library, "broken.so") },
			[]string{"starting clickhouse", "exit status 1", "no such engine"},
		},
		"ClickHouse never answers": {
			func(_ *testing.T, c *Config) {
				c.ClickHouse.Library = sibling(c.ClickHouse.Library, "silent.so")
				c.StartTimeout = 8 * time.Second // the child says something by then
				c.Postgres.Disabled = true       // which may take as long on a busy machine
			},
			[]string{"starting clickhouse", "not ready within 8s", "component=clickhouse"},
		},
		"the library is not there": {
			func(_ *testing.T, c *Config) { c.ClickHouse.Library += ".gone" },
			[]string{"--clickhouse-library", "fake.so.gone"},
		},
		"not installed": {
			func(t *testing.T, c *Config) { c.EnginesDir = t.TempDir() },
			[]string{"tatara-ledger engines install"},
		},
		"the data are of another version": {
			func(t *testing.T, c *Config) { write(t, filepath.Join(c.DataDir, "postgres", "PG_VERSION"), "12\n") },
			[]string{"version 12", "version 18", "--data-dir"},
		},
		"the password of the data is lost": {
			func(t *testing.T, c *Config) { write(t, filepath.Join(c.DataDir, "postgres", "PG_VERSION"), "18\n") },
			[]string{"password", "missing", "secrets/postgres"},
		},
		"the folder holds something else": {
			func(t *testing.T, c *Config) { write(t, filepath.Join(c.DataDir, "postgres", "photo.jpg"), "") },
			[]string{"neither empty nor Postgres data"},
		},
		"the configuration is wrong": {
			func(_ *testing.T, c *Config) { c.Postgres.Port = -1; c.StopTimeout = 0 },
			[]string{"--postgres-port", "stop timeout"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t)
			for _, name := range []string{"silent.so", "broken.so"} {
				write(t, sibling(cfg.ClickHouse.Library, name), "")
			}
			tt.change(t, &cfg)
			r, err := Start(t.Context(), cfg, testLog(t))
			if err == nil {
				_ = r.Close()
				t.Fatal("started")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
			if left := processesNaming(t, cfg.DataDir); len(left) > 0 {
				t.Errorf("left running: %q", left)
			}
		})
	}
}

func sibling(path, name string) string { return filepath.Join(filepath.Dir(path), name) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := makeFolder(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Root's engines run as another user, to whom a folder below /root is closed.
func TestDataFolderClosed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a caller who is not root runs the engines as itself")
	}
	cfg := testConfig(t)
	cfg.DataDir = filepath.Join(t.TempDir(), "data") // t.TempDir has mode 0700
	_, err := Start(t.Context(), cfg, testLog(t))
	if err == nil || !strings.Contains(err.Error(), "mode 0700") || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("got %v", err)
	}
}
