package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/szymonrychu/tatara-ledger/alerts/alertmanagertest"
	"github.com/szymonrychu/tatara-ledger/simulate"
)

// prometheusServer is a real Prometheus: the binary of Debian's package.
type prometheusServer struct {
	url    string
	output output
	done   chan struct{} // closed when it has ended
}

// startPrometheus starts one on a folder with a configuration, which ends with
// the test. Without the binary the test is skipped, and fails where CI is true.
func startPrometheus(t *testing.T, dir string) *prometheusServer {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		const missing = "there is no prometheus: apt-get install prometheus"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip("SKIPPED, no real Prometheus scrapes the service: " + missing)
	}
	addr := freePort(t)
	p := &prometheusServer{url: "http://" + addr, done: make(chan struct{})}
	cmd := exec.Command(binary, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error)
	suite.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its output
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", tail(p.output.String()))
		}
	})
	until(t, "Prometheus is ready", func() bool {
		select {
		case <-p.done:
			t.Fatalf("Prometheus has ended:\n%s", tail(p.output.String()))
		default:
		}
		return send(t.Context(), http.MethodGet, p.url+"/-/ready", nil).status == http.StatusOK
	})
	return p
}

// ask reads an answer of the HTTP API into data.
func (p *prometheusServer) ask(t *testing.T, path string, data any) {
	t.Helper()
	resp, err := http.Get(p.url + "/api/v1/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := struct{ Data any }{data}
	if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", path, resp.Status, err, text)
	}
}

// value is that of an expression with one result; -1 if it has none.
func (p *prometheusServer) value(t *testing.T, expr string) float64 {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	p.ask(t, "query?query="+url.QueryEscape(expr), &data)
	if len(data.Result) == 0 {
		return -1
	}
	if len(data.Result) > 1 {
		t.Fatalf("%s has %d results", expr, len(data.Result))
	}
	v, err := strconv.ParseFloat(fmt.Sprint(data.Result[0].Value[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// rule is a rule as Prometheus has it.
type rule struct {
	Name, Query, Type, Health, LastError, State string
	Labels                                      map[string]string
}

func (p *prometheusServer) rules(t *testing.T) []rule {
	t.Helper()
	var data struct {
		Groups []struct{ Rules []rule }
	}
	p.ask(t, "rules", &data)
	var out []rule
	for _, g := range data.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

// awaitState waits until an alert of a rule is pending or fires.
func (p *prometheusServer) awaitState(t *testing.T, alert, state string) {
	t.Helper()
	until(t, alert+" is "+state, func() bool {
		return slices.ContainsFunc(p.rules(t), func(r rule) bool { return r.Name == alert && r.State == state })
	})
}

// budgeted are budgets that nothing here reaches.
const budgeted = "budgets: {fleet: {usd_per_month: 1_000_000}, projects: {demo: {usd_per_month: 900_000}}}\n"

// ourMetrics finds the names of metrics in an expression.
var ourMetrics = regexp.MustCompile(`\b(?:tatara_ledger|ccw|chat)_[a-z_]+`)

// elsewhere are metrics that exist only where something is configured or wrong
// that a test of a second cannot bring about.
var elsewhere = map[string]string{
	"tatara_ledger_auth_requests_total":            "authentication is on",
	"tatara_ledger_writer_folded_labels_total":     "a label has thousands of values",
	"tatara_ledger_writer_set_aside_records_total": "ClickHouse refuses what it was sent",
}

// TestPrometheus: a real Prometheus scrapes two services under the shipped
// rules. All rules evaluate, over metrics that are there; the fleet's counters
// add up to what was pushed; of a healthy service nothing fires, and what goes
// wrong first does.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ceilings := filepath.Join(dir, "ceilings.yaml")
	if err := os.WriteFile(ceilings, []byte(budgeted), 0o600); err != nil {
		t.Fatal(err)
	}
	am := alertmanagertest.Start(t, "")
	e := startEngines(t)
	args := []string{"--ceilings", ceilings, "--alertmanagers", am.URL}
	a, b := e.newService(t, e.clickHouse, args...), e.newService(t, e.clickHouse, args...)
	startTogether(t, a, b)
	p := scraped(t, dir, a, b)

	cfg := fleetConfig(61, 40, a, b)
	cfg.Models = simulate.DefaultConfig().Models // an unpriced one is worth an alert
	truth := pushed(t, cfg)
	w := newWitness(t)
	ask(t, w, http.MethodPost, "http://"+a.api+"/handoffs", []byte(`{"handoff_key":"k","project":"demo","body":"b"}`), http.StatusCreated)
	ask(t, w, http.MethodGet, "http://"+b.api+"/handoffs/k", nil, http.StatusOK)
	checkCounters(t, p, truth)

	until(t, "all rules were evaluated", func() bool {
		rules := p.rules(t)
		return len(rules) > 0 && !slices.ContainsFunc(rules, func(r rule) bool { return r.Health == "unknown" })
	})
	// None is even pending: most rules wait for minutes before they fire. What a
	// fleet spends within seconds is a runaway by right.
	until(t, "nothing is wrong with a healthy service", func() bool {
		return !slices.ContainsFunc(p.rules(t), func(r rule) bool {
			return r.Type == "alerting" && r.State != "inactive" && r.Labels["component"] != "spend"
		})
	})

	// The first of its kind, of which a counter is born.
	if got := send(t.Context(), http.MethodPost, a.pushURL()+"?pod=odd&run_id=odd-0", []byte("{")); got.status != http.StatusBadRequest {
		t.Errorf("a push that cannot be read: %+v", got)
	}
	if got := send(t.Context(), http.MethodPost, b.pushURL()+"?pod=odd&run_id=odd-0", []byte("ccw_turn_cost_eur_total 1\n")); got.status != http.StatusNoContent {
		t.Errorf("a push of what is not known: %+v", got)
	}
	cfg.Seed, cfg.Pods, cfg.Models = 62, 2, []string{"house-llm"}
	truth.Rows = append(truth.Rows, pushed(t, cfg).Rows...)
	p.awaitState(t, "UnpricedModel", "firing")
	p.awaitState(t, "LedgerFactsRejected", "pending")
	p.awaitState(t, "LedgerSeriesIgnored", "pending")
	checkCounters(t, p, truth)
	checkMetrics(t, p)
	if said := p.output.String(); strings.Contains(said, "level=error") || strings.Contains(said, "level=warn") {
		t.Errorf("Prometheus complains:\n%s", tail(said))
	}
	a.stop(t)
	b.stop(t)
}

// scraped starts a Prometheus under the shipped rules that scrapes services.
func scraped(t *testing.T, dir string, a, b *service) *prometheusServer {
	t.Helper()
	if got := command(t, "alerts", "render", "--out", dir); got.code != 0 {
		t.Fatalf("rendering the rules: %+v", got)
	}
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%[1]q]
scrape_configs:
- job_name: tatara-ledger
  static_configs: [{targets: [%[2]q, %[3]q]}]
- job_name: tatara-ledger-fleet
  metrics_path: /metrics/fleet
  static_configs: [{targets: [%[2]q, %[3]q]}]
`, filepath.Join(dir, "rules.yaml"), a.api, b.api)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return startPrometheus(t, dir)
}

// pushed runs a fleet to its end.
func pushed(t *testing.T, cfg simulate.Config) simulate.Truth {
	t.Helper()
	fleet, err := simulate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	truth, report, err := fleet.Run(t.Context())
	if err != nil || report.Unacknowledged > 0 {
		t.Fatalf("%v: %+v", err, report)
	}
	return truth
}

// checkCounters waits until Prometheus has what a fleet spent, of one service.
func checkCounters(t *testing.T, p *prometheusServer, truth simulate.Truth) {
	t.Helper()
	const tokens = `ccw_turn_tokens_total{source="tatara-ledger"%s}`
	for kind, sum := range truth.By(simulate.ByKind) {
		until(t, "Prometheus has the tokens of "+kind, func() bool {
			return p.value(t, "sum("+fmt.Sprintf(tokens, `,kind="`+kind+`"`)+")") == float64(sum.Tokens())
		})
	}
	if got, want := p.value(t, "sum("+fmt.Sprintf(tokens, "")+")"), float64(truth.Total().Tokens()); got != want {
		t.Errorf("Prometheus has %v tokens of the fleet, %v were pushed", got, want)
	}
	// Dollars are floats there.
	want := float64(truth.Total().Cost.Nano) / 1e9
	if got := p.value(t, `sum(ccw_turn_cost_usd_total{source="tatara-ledger"})`); math.Abs(got-want) > 1e-6 {
		t.Errorf("Prometheus has $%v of the fleet, $%v were spent", got, want)
	}
	if n := p.value(t, "count(count by (instance) (ccw_turn_tokens_total))"); n != 1 {
		t.Errorf("%v services expose the fleet's counters", n)
	}
}

// checkMetrics: every rule evaluates, and over metrics that are there.
func checkMetrics(t *testing.T, p *prometheusServer) {
	t.Helper()
	used := map[string]string{} // a rule by metric
	for _, r := range p.rules(t) {
		if r.Health != "ok" {
			t.Errorf("%s: %s: %s", r.Name, r.Health, r.LastError)
		}
		for _, name := range ourMetrics.FindAllString(r.Query, -1) {
			used[name] = r.Name
		}
	}
	until(t, "the slowest gauges were scraped", func() bool {
		return p.value(t, "count(tatara_ledger_source_last_heard_timestamp_seconds)") > 0 && p.value(t, "count(tatara_ledger_budget_month_spent_usd)") > 0
	})
	var exist []string
	p.ask(t, "label/__name__/values", &exist)
	for name, rule := range used {
		if _, ok := elsewhere[name]; !ok && !slices.Contains(exist, name) {
			t.Errorf("%s: there is no metric %s", rule, name)
		}
	}
	for name, when := range elsewhere {
		if used[name] == "" || slices.Contains(exist, name) {
			t.Errorf("%s is there without that %s, or no rule uses it", name, when)
		}
	}
}
