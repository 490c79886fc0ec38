package engine

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestParentKilled(t *testing.T) {
	t.Parallel()
	needLinux(t)
	cfg := testConfig(t)
	cmd, rep := parent(t, cfg)
	execute(t, rep.DSN, `CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)`)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	// At once: the old engines may still be ending.
	begin := time.Now()
	r := start(t, cfg)
	t.Logf("started %s after the parent was killed", time.Since(begin).Round(time.Millisecond))
	if got := queryInt(t, r.Postgres().DSN(), `SELECT n FROM kept`); got != 7 {
		t.Errorf("got %d", got)
	}
	if r.Postgres().DSN() != rep.DSN || r.ClickHouse().Addr != rep.ClickHouse {
		t.Error("another address after the restart")
	}
	for name, pid := range rep.PIDs {
		if len(commandLine(pid)) > 0 {
			t.Errorf("%s of the killed parent still runs", name)
		}
	}
}

func TestParentKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	needLinux(t)
	cfg := testConfig(t)
	cmd, rep := parent(t, cfg)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "every process is gone", func() bool {
		for _, pid := range rep.PIDs {
			if len(commandLine(pid)) > 0 {
				return false
			}
		}
		return len(processesNaming(t, cfg.DataDir)) == 0
	})
}

func TestParentTerminated(t *testing.T) {
	t.Parallel()
	needLinux(t)
	cfg := testConfig(t)
	cmd, _ := parent(t, cfg)
	begin := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the parent ended with %v", err)
	}
	t.Logf("stopped within %s", time.Since(begin).Round(time.Millisecond))
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if left := processesNaming(t, cfg.DataDir); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, "postgres", "postmaster.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Postgres was not stopped in order: %v", err)
	}
}

// The engine of an earlier life that did not end with it, as on a system without
// a parent-death signal.
func TestEngineLeftOver(t *testing.T) {
	t.Parallel()
	needLinux(t)
	cfg := testConfig(t)
	cfg.ClickHouse.Disabled = true
	libs, err := Locate(cfg.EnginesDir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := openFolder(cfg.DataDir, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPostgres(t.Context(), cfg, f, libs, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	c := p.child(cfg)
	if err := c.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.close() // and nobody stops the child
	r := start(t, cfg)
	if !c.current().wait(time.Second) {
		t.Error("two servers on the same data")
	}
	if got := queryInt(t, r.Postgres().DSN(), `SELECT 1`); got != 1 {
		t.Errorf("got %d", got)
	}
}
