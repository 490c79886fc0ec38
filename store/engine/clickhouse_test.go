package engine

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

func ask(t *testing.T, to ClickHouseAddress, sql string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+to.Addr+"/?database="+to.Database, strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(to.User, to.Password.Reveal())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(answer))
}

// The real engine: killed, started again, its data kept.
func TestRealClickHouse(t *testing.T) {
	cfg := testConfig(t)
	cfg.ClickHouse.Library = ""
	cfg.Postgres.Disabled = true
	libs, err := Locate(cfg.EnginesDir)
	if err != nil {
		t.Fatal(err)
	}
	if libs.ClickHouse == "" {
		t.Skip("none is pinned for " + platform())
	}
	r := start(t, cfg)
	checkUsers(t, r.pids())
	ask(t, r.ClickHouse(), "CREATE TABLE kept (n Int32) ENGINE = MergeTree ORDER BY n")
	ask(t, r.ClickHouse(), "INSERT INTO kept VALUES (7)")
	c := r.children[0]
	before := c.current().pid
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ClickHouse is started again", func() bool { return c.up.Load() && c.current().pid != before })
	if got := ask(t, r.ClickHouse(), "SELECT n FROM kept"); got != "7" {
		t.Errorf("got %q", got)
	}
	if got := ask(t, r.GrafanaAccount(), "DROP TABLE kept"); !strings.Contains(got, "Code: ") {
		t.Errorf("the restricted account dropped a table: %q", got)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = start(t, cfg)
	if got := ask(t, r.ClickHouse(), "SELECT n FROM kept"); got != "7" {
		t.Errorf("after a restart: %q", got)
	}
}
