package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runAlerts(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newAlertsCommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// What is rendered with the default flags is what the goldens have.
func TestAlertsRender(t *testing.T) {
	t.Parallel()
	for format, name := range map[string]string{"prometheus": "rules.yaml", "kubernetes": "prometheusrule.yaml"} {
		dir := filepath.Join(t.TempDir(), "a", "b")
		out, err := runAlerts(t, "render", "--out", dir, "--format", format)
		if err != nil {
			t.Fatal(err)
		}
		var want string
		for _, file := range []string{name, "alertmanager.yaml"} {
			want += filepath.Join(dir, file) + "\n"
			got, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile(filepath.Join("..", "..", "alerts", "testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(golden) {
				t.Errorf("%s is not the golden file", file)
			}
		}
		if out != want {
			t.Errorf("printed %q, want %q", out, want)
		}
	}
}

func TestAlertsRenderWithCeilings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ceilings := filepath.Join(dir, "ceilings.yaml")
	if err := os.WriteFile(ceilings, []byte("thresholds: [60, 90]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runAlerts(t, "render", "--out", dir, "--ceilings", ceilings); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "alertmanager.yaml"))
	if err != nil || !strings.Contains(string(text), `threshold="90"`) || strings.Contains(string(text), `"100"`) {
		t.Errorf("%v:\n%s", err, text)
	}
}

func TestAlertsRenderRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`"out" not set`:        {"render"},
		"unknown format":       {"render", "--out", t.TempDir(), "--format", "helm"},
		"no such file":         {"render", "--out", t.TempDir(), "--ceilings", "nowhere.yaml"},
		"not an http or https": {"render", "--out", t.TempDir(), "--dashboards", "grafana"},
		"is not positive":      {"render", "--out", t.TempDir(), "--runaway-usd-per-hour", "0"},
	} {
		if out, err := runAlerts(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q; printed %q", args, err, want, out)
		}
	}
}
