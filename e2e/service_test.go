package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/szymonrychu/tatara-ledger/api/client"
)

// service is a running `tatara-ledger serve`. It can be killed and started
// again on the same ports and data.
type service struct {
	*process
	dir       string
	args      []string // of serve
	reach     []string // flags of other commands that lead to its ClickHouse
	api, push string   // host:port
	client    *client.Client
	// faults says that the test breaks something: errors in the log are right.
	faults bool
}

// serve starts a service with embedded engines, or with those that args name,
// and waits until it is ready.
func serve(t *testing.T, args ...string) *service {
	t.Helper()
	s := newService(t, args...)
	s.start(t)
	return s
}

// newService is a service that is not started yet.
func newService(t *testing.T, args ...string) *service {
	t.Helper()
	s := &service{dir: folder(t), api: freePort(t), push: freePort(t)}
	s.args = append([]string{"serve", "--data-dir", s.dir, "--listen", s.api, "--push-listen", s.push, "--clickhouse-port", "0"}, args...)
	s.reach = []string{"--data-dir", s.dir, "--clickhouse-port", "0"}
	s.client = client.New("http://" + s.api)
	return s
}

// start starts a service that was stopped or killed.
func (s *service) start(t *testing.T) {
	t.Helper()
	s.process = start(t, s.args...)
	s.awaitReady(t)
}

func (s *service) awaitReady(t *testing.T) {
	t.Helper()
	until(t, "the service is ready", func() bool {
		if s.ended() {
			t.Fatalf("the service has ended: %v\n%s", s.err, tail(s.stderr.String()))
		}
		return s.status("/readyz") == http.StatusOK
	})
	if got := s.serving(t); got["api"] != s.api || got["push"] != s.push {
		t.Errorf("the log says that it serves at %v; it does at %s and %s", got, s.api, s.push)
	}
}

// serving are the addresses that the service logs.
func (s *service) serving(t *testing.T) map[string]string {
	t.Helper()
	return logged(t, s.process, "serving")
}

// logged is the line of a process's log with a message.
func logged(t *testing.T, p *process, msg string) map[string]string {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(p.stderr.String()))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var fields map[string]any
		if json.Unmarshal(lines.Bytes(), &fields) != nil || fields["msg"] != msg {
			continue
		}
		out := map[string]string{}
		for k, v := range fields {
			out[k], _ = v.(string)
		}
		return out
	}
	t.Fatalf("no line %q in the log:\n%s", msg, tail(p.stderr.String()))
	return nil
}

// status is that of GET path at the main listener; 0 if none came.
func (s *service) status(path string) int {
	resp, err := http.Get("http://" + s.api + path)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// kill ends the service as a crash does. Its engines must go with it.
func (s *service) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.done
	until(t, "the engines are gone", func() bool { return len(users(t, s.dir)) == 0 })
}

// stop ends the service in order.
func (s *service) stop(t *testing.T) {
	t.Helper()
	stop(t, s.process)
	if left := users(t, s.dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if log := s.stderr.String(); !s.faults && strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("errors in the log:\n%s", tail(log))
	}
}

func stop(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.awaitExit(t)
	if p.err != nil {
		t.Errorf("stopping on SIGTERM: %v\n%s", p.err, tail(p.stderr.String()))
	}
}

func (s *service) pushURL() string { return "http://" + s.push + "/internal/metrics/push" }

// metric sums the series of a name.
func (s *service) metric(t *testing.T, name string) float64 {
	t.Helper()
	return series(t, s, name, "")
}

// series sums the series of a name that have labels, such as op="write". With
// labels, there may be none yet.
func series(t *testing.T, s *service, name, labels string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + s.api + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sum, found := 0.0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if base, of, _ := strings.Cut(series, "{"); base == name && strings.Contains(of, labels) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("metric %s: %v", series, err)
			}
			sum, found = sum+v, true
		}
	}
	if err := lines.Err(); err != nil || !found && labels == "" {
		t.Fatalf("metric %s is not there: %v", name, err)
	}
	return sum
}

// drained waits until the ledger has what was acknowledged.
func drained(t *testing.T, services ...*service) {
	t.Helper()
	for _, s := range services {
		until(t, "the journal is drained", func() bool { return s.metric(t, "tatara_ledger_journal_pending_records") == 0 })
	}
}

// engines are engines without a service, for several services.
type engines struct {
	*process
	dir        string
	clickHouse string // host:port
	env        map[string]string
}

// startEngines runs them and reads what they print.
func startEngines(t *testing.T) *engines {
	t.Helper()
	e := &engines{dir: folder(t), env: map[string]string{}}
	e.process = start(t, "engines", "run", "--data-dir", e.dir, "--clickhouse-port", "0")
	until(t, "the engines are ready", func() bool {
		if e.ended() {
			t.Fatalf("the engines have ended: %v\n%s", e.err, tail(e.stderr.String()))
		}
		return strings.Count(e.stdout.String(), "\n") == 5
	})
	for line := range strings.Lines(e.stdout.String()) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		name, exported := strings.CutPrefix(name, "export TATARA_LEDGER_")
		if !ok || !exported {
			t.Fatalf("engines run printed %q", line)
		}
		e.env[name] = strings.Trim(value, "'")
	}
	e.clickHouse = e.env["CLICKHOUSE"]
	return e
}

// serve starts a service on the engines, with ClickHouse at an address that
// may lead to them through something else.
func (e *engines) serve(t *testing.T, clickHouse string, args ...string) *service {
	t.Helper()
	s := e.newService(t, clickHouse, args...)
	s.start(t)
	return s
}

func (e *engines) newService(t *testing.T, clickHouse string, args ...string) *service {
	t.Helper()
	s := newService(t, append(e.flags(clickHouse), append([]string{
		"--postgres", e.env["POSTGRES"], "--postgres-password-file", e.env["POSTGRES_PASSWORD_FILE"],
	}, args...)...)...)
	s.reach = e.flags(e.clickHouse)
	return s
}

func (e *engines) flags(clickHouse string) []string {
	return []string{
		"--clickhouse", clickHouse, "--clickhouse-user", e.env["CLICKHOUSE_USER"],
		"--clickhouse-password-file", e.env["CLICKHOUSE_PASSWORD_FILE"],
	}
}

// secret is a password of the engines in a data folder.
func secret(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "secrets", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// clickHousePID is the process of the embedded ClickHouse in a data folder.
func clickHousePID(t *testing.T, dir string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "clickhouse.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
