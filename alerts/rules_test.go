package alerts

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// files are what is rendered, by name under testdata.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, render := range map[string]func(Options) ([]byte, error){
		"rules.yaml": Rules, "prometheusrule.yaml": PrometheusRule, "alertmanager.yaml": Routing,
	} {
		text, err := render(DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		out[name] = text
	}
	return out
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, got := range files(t) {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what is rendered (-update writes it):\n%s", path, diff)
		}
	}
}

// The manifest has the very groups of the rules file.
func TestManifestHasTheRules(t *testing.T) {
	t.Parallel()
	var rules ruleFile
	var m manifest
	all := files(t)
	if err := errors.Join(yaml.Unmarshal(all["rules.yaml"], &rules), yaml.Unmarshal(all["prometheusrule.yaml"], &m)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules, m.Spec); diff != "" || len(rules.Groups) == 0 || m.Kind != "PrometheusRule" {
		t.Errorf("%s: %s", m.Kind, diff)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range Groups(DefaultOptions()) {
		for _, r := range g.Rules {
			if r.Record != "" {
				continue
			}
			if seen[r.Alert] {
				t.Errorf("%s is defined twice", r.Alert)
			}
			seen[r.Alert] = true
			for field, v := range map[string]string{
				"expression": r.Expr, "component": r.Component, "summary": r.Summary, "description": r.Description, "dashboard": r.Dashboard,
			} {
				if v == "" {
					t.Errorf("%s has no %s", r.Alert, field)
				}
			}
			if r.Severity != Critical && r.Severity != Warning {
				t.Errorf("%s has the severity %q", r.Alert, r.Severity)
			}
			if strings.Contains(r.Summary, "\n") || strings.HasSuffix(r.Summary, ".") {
				t.Errorf("the summary of %s is not one line without a full stop", r.Alert)
			}
			// tatara-observability#36: absent() on a per-task series pages when
			// the fleet is idle.
			if strings.Contains(r.Expr, "absent") && r.Alert != "LedgerAbsent" {
				t.Errorf("%s uses absent()", r.Alert)
			}
			if strings.Contains(r.Expr, "ccw_") && !strings.Contains(r.Expr, ours) {
				t.Errorf("%s takes series of wrappers for ours", r.Alert)
			}
		}
	}
}

// Every alert has a page with every part, and every page an alert.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	want := append(Alerts(), CeilingAlerts()...)
	slices.Sort(want)
	pages, err := fs.Glob(runbooks, "runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pages {
		got = append(got, strings.TrimSuffix(filepath.Base(p), ".md"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts (-) and runbooks (+) differ:\n%s", diff)
	}
	for _, alert := range got {
		page, _ := Runbook(alert)
		at := 0
		for _, part := range []string{"# " + alert + "\n", "\n## Meaning\n\n", "\n## Impact\n\n", "\n## Diagnosis\n\n", "\n```", "\n## Mitigation\n\n- "} {
			i := strings.Index(page[at:], part)
			if i < 0 {
				t.Errorf("the page of %s lacks %q, or has it elsewhere", alert, part)
				break
			}
			at += i
		}
		for _, link := range strings.Split(page, "](")[1:] {
			name, _, _ := strings.Cut(link, ")")
			if _, ok := Runbook(strings.TrimSuffix(name, ".md")); !ok {
				t.Errorf("the page of %s links to %s", alert, name)
			}
		}
	}
	if _, ok := Runbook("../rules"); ok {
		t.Error("a page outside the folder was found")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	c, err := ceiling.LoadFile("")
	if err != nil || !slices.Equal(c.Thresholds, o.Thresholds) {
		t.Errorf("thresholds %v, those of the shipped ceilings %v, %v", o.Thresholds, c.Thresholds, err)
	}
	bad := Options{Runbooks: "ftp://x", Dashboards: "https://x/{{ y }}", RunawayUSDPerHour: -1, Thresholds: []int{80, 50}}
	err = bad.Validate()
	for _, want := range []string{"runbooks", "dashboards", "-1", "[80 50]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	for _, render := range []func(Options) ([]byte, error){Rules, PrometheusRule, Routing} {
		if text, err := render(bad); err == nil {
			t.Errorf("rendered %s", text)
		}
	}
	o.Runbooks, o.Dashboards, o.RunawayUSDPerHour = "http://r/", "http://d/", 7
	text, err := Rules(o)
	for _, want := range []string{"> 7\n", "http://r/SpendRunaway.md", "http://d/d/tatara-ledger-spend?"} {
		if err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%v: the rules lack %q", err, want)
		}
	}
}

// Of the shipped thresholds 100 inhibits 80 and 50, and 80 inhibits 50, of the
// same alert and task.
func TestInhibition(t *testing.T) {
	t.Parallel()
	var r routing
	if err := yaml.Unmarshal(files(t)["alertmanager.yaml"], &r); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, i := range r.InhibitRules {
		if len(i.Equal) > 0 {
			got[i.Source[len(i.Source)-1]] = i.Target[len(i.Target)-1]
			if diff := cmp.Diff([]string{"alertname", "project", "repo", "kind", "task"}, i.Equal); diff != "" {
				t.Error(diff)
			}
		}
	}
	want := map[string]string{`threshold="100"`: `threshold=~"50|80"`, `threshold="80"`: `threshold=~"50"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// tool runs one of Prometheus' own tools in testdata.
func tool(t *testing.T, name, debian string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("there is no %s: apt-get install %s", name, debian)
		}
		t.Skipf("SKIPPED, rules are not checked: there is no %s: apt-get install %s", name, debian)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = "testdata"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func TestPromtoolCheck(t *testing.T) {
	t.Parallel()
	tool(t, "promtool", "prometheus", "check", "rules", "--lint-fatal", "rules.yaml")
}

func TestPromtoolTest(t *testing.T) {
	t.Parallel()
	for _, path := range ruleTests(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			t.Parallel()
			tool(t, "promtool", "prometheus", "test", "rules", filepath.Base(path))
		})
	}
}

func TestAmtoolCheck(t *testing.T) {
	t.Parallel()
	tool(t, "amtool", "prometheus-alertmanager", "check-config", "alertmanager.yaml")
}

func ruleTests(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*_test.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	return paths
}

// Every rule is tested to fire, to resolve after it fired, and not to fire on a
// fleet that is idle or well: a test without any alert.
func TestEveryRuleIsTested(t *testing.T) {
	t.Parallel()
	type verdict struct{ fires, resolves, silent bool }
	got := map[string]verdict{}
	for _, path := range ruleTests(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Tests []struct {
				Rules []struct {
					Alert string `yaml:"alertname"`
					Exp   []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			} `yaml:"tests"`
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatal(path, err)
		}
		for _, test := range file.Tests {
			fired := map[string]bool{}
			for _, r := range test.Rules { // in the order of time
				v := got[r.Alert]
				if len(r.Exp) > 0 {
					v.fires, fired[r.Alert] = true, true
				} else if fired[r.Alert] {
					v.resolves = true
				}
				got[r.Alert] = v
			}
			for _, r := range test.Rules {
				if v := got[r.Alert]; !fired[r.Alert] {
					v.silent = true
					got[r.Alert] = v
				}
			}
		}
	}
	for _, alert := range Alerts() {
		if v := got[alert]; v != (verdict{true, true, true}) {
			t.Errorf("%s is tested incompletely: %+v", alert, v)
		}
		delete(got, alert)
	}
	if len(got) > 0 {
		t.Errorf("tests of alerts that do not exist: %v", got)
	}
}
