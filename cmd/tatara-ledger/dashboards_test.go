package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/szymonrychu/tatara-ledger/dashboards"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

func runDashboards(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newDashboardsCommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// What is rendered with the default flags is what the goldens have.
func TestDashboardsRender(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	out, err := runDashboards(t, "render", "--out", dir)
	if err != nil {
		t.Fatal(err)
	}
	options, err := dashboardOptions("")
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string]string{
		"provisioning/datasources/tatara-ledger.yaml": "provisioning-datasources.yaml",
		"provisioning/dashboards/tatara-ledger.yaml":  "provisioning-dashboards.yaml",
	}
	for _, d := range dashboards.All(options) {
		golden["dashboards/"+d.UID+".json"] = d.UID + ".json"
	}
	for name, file := range golden {
		path := filepath.Join(dir, filepath.FromSlash(name))
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("..", "..", "dashboards", "testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) || !strings.Contains(out, path+"\n") {
			t.Errorf("%s is not the golden file, or is not named:\n%s", name, out)
		}
	}
	if _, err := runDashboards(t, "render", "--out", dir, "--datasource-address", "nowhere"); exitCode(err) != 2 {
		t.Errorf("an address without a port: %v", err)
	}
}

// Pushing exits with 1 where a dashboard was left alone, and says which.
func TestDashboardsPush(t *testing.T) {
	t.Parallel()
	writes := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodGet {
			writes++
		}
		uid := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if err := json.NewEncoder(w).Encode(map[string]any{"dashboard": map[string]any{"uid": uid, "title": "by hand"}}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"push", "--grafana", server.URL, "--grafana-token-file", token}
	out, err := runDashboards(t, append(flags, "--overwrite", "--dry-run")...)
	if err != nil || writes != 0 || !strings.Contains(out, "replaced\ttatara-ledger-spend\n") || !strings.Contains(out, `-  "title": "by hand"`) {
		t.Errorf("a dry run: %d writes, %v\n%.300s", writes, err, out)
	}
	out, err = runDashboards(t, flags...)
	if err == nil || exitCode(err) != 1 || writes != 0 || !strings.Contains(out, "refused\ttatara-ledger-task\n") {
		t.Errorf("without --overwrite: %d writes, %v\n%s", writes, err, out)
	}
	if out, err = runDashboards(t, append(flags, "--overwrite")...); err != nil || writes != 6 {
		t.Errorf("with --overwrite: %d writes, %v\n%s", writes, err, out)
	}
	if _, err := runDashboards(t, "push", "--grafana", "nowhere"); exitCode(err) != 2 {
		t.Errorf("no address: %v", err)
	}
	if _, err := runDashboards(t, "push", "--grafana", server.URL); err == nil || exitCode(err) != 1 {
		t.Errorf("no token: %v", err)
	}
}

// Checking runs every query, and exits with 1 where one does not run.
func TestDashboardsCheck(t *testing.T) {
	t.Parallel()
	a, database := engines.ClickHouse(t), engines.Database(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(a.Password.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{
		"check", "--clickhouse", a.Addr, "--clickhouse-user", a.User, "--clickhouse-password-file", password,
		"--clickhouse-database", database, "--format", "json", "--value", "kind=it's",
	}
	store, err := clickhouse.Open(clickhouse.Config{Addresses: []string{a.Addr}, Database: database, User: a.User, Password: a.Password.Reveal()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := store.Migrate(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	check := func(args ...string) ([]dashboards.Result, error) {
		t.Helper()
		out, err := runDashboards(t, append(flags, args...)...)
		var results []dashboards.Result
		if e := json.Unmarshal([]byte(out), &results); e != nil {
			t.Fatalf("%v: %.200s", e, out)
		}
		return results, err
	}
	results, err := check()
	if err != nil || len(results) < 80 {
		t.Errorf("%d results of an empty ledger: %v", len(results), err)
	}
	// A value whose backslash is not doubled, as no query of a variable gives it,
	// takes the quote along: it is an error, and reported as one.
	results, err = check("--value", `repo=\`)
	failed := 0
	for _, r := range results {
		if r.Error != "" {
			failed++
		}
	}
	if err == nil || exitCode(err) != 1 || failed == 0 {
		t.Errorf("%d of %d queries failed: %v", failed, len(results), err)
	}
	for _, bad := range [][]string{{"--format", "xml"}, {"--since", "-1h"}, {"--points", "0"}, {"--value", "kind"}} {
		if _, err := runDashboards(t, append([]string{"check", "--clickhouse", a.Addr}, bad...)...); exitCode(err) != 2 {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
