package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStart(t *testing.T) {
	cfg := testConfig(t)
	r := start(t, cfg)
	if got := queryInt(t, r.Postgres().DSN(), `SELECT 42`); got != 42 {
		t.Errorf("got %d", got)
	}
	settings := queryInt(t, r.Postgres().DSN(), `
		SELECT count(*) FROM pg_settings WHERE (name, setting) IN (
			('data_checksums', 'on'), ('server_encoding', 'UTF8'), ('password_encryption', 'scram-sha-256'),
			('listen_addresses', '127.0.0.1'), ('unix_socket_directories', ''), ('TimeZone', 'UTC'))`)
	if settings != 6 {
		t.Errorf("%d of 6 settings are as intended", settings)
	}
	if post(t, r.ClickHouse(), "row") != http.StatusOK {
		t.Error("the account of the service may not write")
	}
	if post(t, r.GrafanaAccount(), "row") != http.StatusOK {
		t.Error("the child does not know the account of Grafana")
	}
	wrong := r.ClickHouse()
	wrong.Password = NewSecret("wrong")
	if got := post(t, wrong, "row"); got != http.StatusUnauthorized {
		t.Errorf("wrong password: status %d", got)
	}
	first := []string{r.Postgres().DSN(), r.ClickHouse().Addr, r.ClickHouse().Password.Reveal(), r.GrafanaAccount().Password.Reveal()}
	checkModes(t, cfg.DataDir)
	checkUsers(t, r.pids())

	begin := time.Now()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if left := processesNaming(t, cfg.DataDir); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}

	r = start(t, cfg)
	second := []string{r.Postgres().DSN(), r.ClickHouse().Addr, r.ClickHouse().Password.Reveal(), r.GrafanaAccount().Password.Reveal()}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("addresses and passwords changed over a restart:\n%s", diff)
	}
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	passable := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		passable = 0o711
	}
	for path, want := range map[string]os.FileMode{
		"": passable, "secrets": passable, "ports": 0o700, "postgres": 0o700, "clickhouse": 0o700,
		"lock": 0o600, "secrets/postgres": 0o600, "secrets/clickhouse": 0o600, "secrets/clickhouse-grafana": 0o600,
	} {
		mode, uid := modeOf(t, filepath.Join(dir, path))
		if mode != want {
			t.Errorf("%s has mode %o instead of %o", path, mode, want)
		}
		ofEngines := strings.HasPrefix(path, "secrets/clickhouse") || path == "postgres" || path == "clickhouse"
		if (uid != os.Geteuid()) != (os.Geteuid() == 0 && ofEngines) {
			t.Errorf("%s belongs to user %d", path, uid)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "secrets", ".initdb")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a copy of the password stays: %v", err)
	}
}

// checkUsers: no engine runs as root.
func checkUsers(t *testing.T, pids map[string]int) {
	t.Helper()
	needLinux(t)
	for name, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(status), "\nUid:\t0\t") || !strings.Contains(string(status), "\nUid:\t") {
			t.Errorf("%s runs as root", name)
		}
	}
}

func post(t *testing.T, to ClickHouseAddress, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+to.Addr+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(to.User, to.Password.Reveal())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // amid initdb
	defer cancel()
	if _, err := Start(ctx, cfg, testLog(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if left := processesNaming(t, cfg.DataDir); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	r := start(t, cfg)
	if got := queryInt(t, r.Postgres().DSN(), `SELECT 1`); got != 1 {
		t.Errorf("got %d", got)
	}
}

// After the restart of a container the old pid often belongs to a stranger.
func TestStrangerHasPID(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.ClickHouse.Disabled = true
	r := start(t, cfg)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("sleep", "60")
	stranger.SysProcAttr = &syscall.SysProcAttr{}
	if _, uid := modeOf(t, filepath.Join(cfg.DataDir, "postgres")); os.Geteuid() == 0 {
		stranger.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	pid := strconv.Itoa(stranger.Process.Pid) + "\n"
	for _, path := range []string{"postgres/postmaster.pid", "clickhouse.pid"} {
		if err := os.WriteFile(filepath.Join(cfg.DataDir, path), []byte(pid), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.ClickHouse.Disabled = false
	r = start(t, cfg)
	if got := queryInt(t, r.Postgres().DSN(), `SELECT 1`); got != 1 {
		t.Errorf("got %d", got)
	}
	if len(commandLine(stranger.Process.Pid)) == 0 {
		t.Error("the stranger was ended")
	}
}

func TestSecondInstance(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.ClickHouse.Disabled = true
	start(t, cfg)
	_, err := Start(t.Context(), cfg, testLog(t))
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"pid " + strconv.Itoa(os.Getpid()), cfg.DataDir, "--data-dir"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
}

// A user without privileges has no account to change to, and needs none.
func TestUnprivilegedCaller(t *testing.T) {
	needLinux(t)
	if os.Geteuid() != 0 {
		t.Skip("every other test runs unprivileged already")
	}
	testConfig(t) // installs
	account, err := lookupAccount("nobody")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^(TestStart|TestChildKilled|TestSecondInstance)$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), "HOME=/nonexistent")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account.credential()}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "SKIP") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Data that another user wrote, or root restored, go to the user who is named.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	account, err := lookupAccount("nobody")
	if err != nil {
		t.Skip(err)
	}
	cfg := testConfig(t)
	r := start(t, cfg)
	execute(t, r.Postgres().DSN(), `CREATE TABLE kept (n int)`)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	cfg.User = account.name
	r = start(t, cfg)
	execute(t, r.Postgres().DSN(), `INSERT INTO kept VALUES (7)`)
	if post(t, r.ClickHouse(), "row") != http.StatusOK {
		t.Error("ClickHouse cannot write")
	}
	for _, path := range []string{"postgres", "clickhouse", "secrets/clickhouse"} {
		if _, uid := modeOf(t, filepath.Join(cfg.DataDir, path)); uid != account.uid {
			t.Errorf("%s belongs to user %d", path, uid)
		}
	}
}

func TestNothingToStart(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.DataDir = filepath.Join(t.TempDir(), "data")
	cfg.ClickHouse.Disabled, cfg.Postgres.Disabled = true, true
	r := start(t, cfg)
	if r.Postgres() != (PostgresAddress{}) || r.ClickHouse() != (ClickHouseAddress{}) {
		t.Error("addresses of engines that do not run")
	}
	if _, err := os.Stat(cfg.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data folder was touched: %v", err)
	}
}
