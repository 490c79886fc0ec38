package e2e

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// golden compares with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update accepts it):\n%s", name, diff)
	}
}

// januaryCalls are the same whenever the test runs.
func januaryCalls() []call {
	at := func(day, hour int) time.Time { return time.Date(2026, 1, day, hour, 30, 0, 0, time.UTC) }
	return []call{
		{
			ID: "1", Time: at(5, 10), Project: "demo", Repo: "widgets", Kind: "implement", Task: "t-1", Model: "claude-opus-4-8",
			Input: 120, Output: 2400, CacheRead: 51000, CacheWrite5m: 18000,
		},
		{
			ID: "2", Time: at(5, 11), Project: "demo", Repo: "widgets", Kind: "implement", Task: "t-1", Model: "claude-haiku-4-5",
			Input: 1_234_567, Output: 1, CacheWrite1h: 1,
		},
		{ID: "3", Time: at(6, 12), Project: "demo", Kind: "review", Task: "t-2", Model: "claude-opus-4-8", Input: 3},
		{ID: "4", Time: at(6, 13), Project: "side", Kind: "review", Task: "t-3", Model: "house-llm", Input: 1000, Output: 20},
		{ID: "5", Time: at(6, 14), Project: "side", Task: "t-3", Model: "house-llm", Input: 10, CostUSD: "0.123456789"},
	}
}

// TestReport: the report for people and programs, from the service and from
// the store itself.
func TestReport(t *testing.T) {
	t.Parallel()
	s := serve(t)
	report := func(args ...string) string {
		t.Helper()
		got := command(t, append([]string{"report", "--url", "http://" + s.api}, args...)...)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("report %q: %+v", args, got)
		}
		return got.stdout
	}
	january := []string{"--from", "2026-01-01", "--to", "2026-02-01"}
	golden(t, "report-nothing-heard.txt", report(january...))

	post(t, januaryCalls(), s)
	drained(t, s)
	for name, args := range map[string][]string{
		"report-kind.txt":        {"--by", "kind"},
		"report-repo-model.txt":  {"--by", "repo,model", "--where", "project=demo"},
		"report-day.csv":         {"--by", "day", "--format", "csv"},
		"report-task.json":       {"--by", "task,issue", "--format", "json"},
		"report-one-project.csv": {"--by", "task", "--where", "project=side", "--format", "csv"},
	} {
		golden(t, name, report(append(args, january...)...))
		direct := command(t, append(append([]string{
			"report", "--clickhouse", s.serving(t)["clickhouse"], "--clickhouse-user", "ledger",
			"--clickhouse-password-file", filepath.Join(s.dir, "secrets", "clickhouse"),
		}, args...), january...)...)
		if direct.code != 0 {
			t.Errorf("report from the store: %+v", direct)
		} else {
			golden(t, name, direct.stdout)
		}
	}
	var answer wire.Spend
	if err := json.Unmarshal([]byte(report(append(january, "--format", "json")...)), &answer); err != nil || answer.Total.CostUSD == nil {
		t.Errorf("the report as JSON: %+v, %v", answer, err)
	}
	times := regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\dZ)?`)
	empty := times.ReplaceAllString(report("--since", "2h"), "TIME")
	golden(t, "report-empty.txt", regexp.MustCompile(`heard \S+ ago`).ReplaceAllString(empty, "heard AGE ago"))
	verify(t, s)
	ofFolder := append([]string{"report", "--data-dir", s.dir, "--by", "kind"}, january...)
	for _, beside := range []bool{true, false} { // a service, or nobody
		if !beside {
			s.stop(t)
		}
		if got := command(t, ofFolder...); got.code != 0 {
			t.Errorf("report of a data folder, beside a service %t: %+v", beside, got)
		} else {
			golden(t, "report-kind.txt", got.stdout)
		}
	}
}

// TestVerifyFindsDifferences: what does not follow from the facts is shown, and
// the exit code says so.
func TestVerifyFindsDifferences(t *testing.T) {
	t.Parallel()
	s := serve(t)
	post(t, januaryCalls(), s)
	drained(t, s)
	if got := command(t, append([]string{"verify"}, s.reach...)...); got.code != 0 || got.stdout != "5 calls, 0 runs and 5 charges verified, 0 differences\n" {
		t.Errorf("verify: %+v", got)
	}
	// The port that it is told is not the service's.
	if got := command(t, "verify", "--data-dir", s.dir, "--clickhouse-port", "1"); got.code != 0 {
		t.Errorf("verify with another port: %+v", got)
	}
	ch := owner(t, s.serving(t)["clickhouse"], s.dir)
	ch.must(t, "ALTER TABLE charges DELETE WHERE task = 't-2' SETTINGS mutations_sync = 2")
	got := command(t, append([]string{"verify"}, s.reach...)...)
	if got.code != 1 || !strings.Contains(got.stdout, "missing") || !strings.Contains(got.stderr, "differences") {
		t.Errorf("verify of a ledger that lacks a charge: %+v", got)
	}
	s.stop(t)
	// Without a service it starts the engines itself.
	if got = command(t, append([]string{"verify"}, s.reach...)...); got.code != 1 || !strings.Contains(got.stdout, "missing") {
		t.Errorf("verify without a service: %+v", got)
	}
	if left := users(t, s.dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestBadUsage: exit code 2 and one line that names the mistake, before
// anything is started.
func TestBadUsage(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	for line, want := range map[string]string{
		"serve --nope":                                   "unknown flag: --nope",
		"serve --drain-timeout soon":                     `invalid argument "soon" for "--drain-timeout"`,
		"serve --drain-timeout -1s":                      "--drain-timeout must not be negative",
		"serve --log-level loud":                         `invalid argument "loud" for "--log-level"`,
		"serve now":                                      `unknown command "now"`,
		"serve --listen 0.0.0.0:8080":                    "--listen 0.0.0.0:8080 is not loopback: callers must be told apart there: give --oidc-issuer or --tokens-file",
		"serve --listen :8080":                           "--listen :8080 is not loopback",
		"serve --listen nowhere":                         `--listen "nowhere" is no host:port`,
		"serve --push-listen 0.0.0.0:8082":               "give --push-allow-remote to open it",
		"serve --task-pattern (":                         "--task-pattern: error parsing regexp",
		"serve --task-pattern x":                         "must have one capture group",
		"serve --journal-bytes 1":                        "journal: max bytes must hold two segments",
		"serve --clickhouse-port 70000":                  "--clickhouse-port must be between 0 and 65535",
		"serve --forward-to nowhere":                     "is no http(s) URL",
		"report --format xml":                            `unknown --format "xml": want table, json or csv`,
		"report --since yesterday":                       `--since "yesterday": use a duration such as 90m, 24h or 7d`,
		"report --where project":                         `--where "project": use dimension=value`,
		"verify --format csv":                            `unknown --format "csv": want table or json`,
		"verify --task-pattern x":                        "must have one capture group",
		"nosuch":                                         `unknown command "nosuch"`,
		"simulate --pods many":                           `invalid argument "many" for "--pods"`,
		"report --clickhouse 127.0.0.1:1 --by nonsense":  `by: "nonsense" is no dimension`,
		"report --clickhouse 127.0.0.1:1 --from someday": "from: is no time",
	} {
		args := strings.Fields(line)
		if args[0] == "serve" || args[0] == "verify" {
			args = append(args, "--data-dir", dir)
		}
		got := command(t, args...)
		if got.code != 2 || !strings.Contains(got.stderr, want) || !strings.HasPrefix(got.stderr, "tatara-ledger: ") {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a data folder was made")
	}
}

// TestServeRefuses: what is taken already is refused with its name.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t)
	expect := func(want string, args ...string) {
		t.Helper()
		got := command(t, append([]string{"serve"}, args...)...)
		if got.code != 1 || !strings.Contains(got.stderr, want) {
			t.Errorf("serve %q: %+v", args, got)
		}
	}
	expect("in use by another process (pid ", "--data-dir", s.dir, "--listen", freePort(t), "--push-listen", freePort(t), "--clickhouse-port", "0")
	other := folder(t)
	expect(s.api+": bind: address already in use", "--data-dir", other, "--listen", s.api, "--push-listen", freePort(t), "--clickhouse-port", "0")
	expect(s.push+": bind: address already in use", "--data-dir", other, "--listen", freePort(t), "--push-listen", s.push, "--clickhouse-port", "0")
	_, port, err := net.SplitHostPort(s.serving(t)["clickhouse"])
	if err != nil {
		t.Fatal(err)
	}
	expect("port "+port+" on 127.0.0.1 is in use by another program", "--data-dir", other, "--clickhouse-port", port)
	if left := users(t, other); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}

	// --check connects everything, migrates and serves nothing, and is done.
	got := command(t, "serve", "--check", "--data-dir", other, "--listen", s.api, "--push-listen", s.push, "--clickhouse-port", "0")
	if got.code != 0 || strings.Contains(got.stderr, `"msg":"serving"`) || strings.Contains(got.stderr, "migrated") {
		t.Errorf("serve --check: %+v", got)
	}
	if left := users(t, other); len(left) > 0 {
		t.Errorf("left behind by --check: %q", left)
	}
	got = command(t, "serve", "--check", "--data-dir", other, "--clickhouse", "127.0.0.1:1", "--postgres", "postgres://nobody@127.0.0.1:1/none")
	if got.code != 1 || !strings.Contains(got.stderr, "reaching ClickHouse") || !strings.Contains(got.stderr, "reaching Postgres") {
		t.Errorf("serve --check without stores: %+v", got)
	}
	s.stop(t)
}
