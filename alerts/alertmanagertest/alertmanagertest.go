// Package alertmanagertest gives tests a real Alertmanager: the binary of
// Debian's package prometheus-alertmanager, alone on a loopback port.
package alertmanagertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// silent is a configuration whose only receiver tells nobody.
const silent = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"

// patience bounds a start and a stop on a busy machine.
const patience = time.Minute

// Server is a running Alertmanager. It belongs to one test and one goroutine.
type Server struct {
	// URL is its base URL, the same after a restart.
	URL string

	t      testing.TB
	binary string
	dir    string
	output output
	cmd    *exec.Cmd     // nil while it is stopped
	done   chan struct{} // closed when cmd has ended
}

// Start starts an Alertmanager that ends with the test. config is the content of
// its configuration file; "" tells nobody. Without the binary the test is
// skipped, and fails where CI is true.
func Start(t testing.TB, config string) *Server {
	t.Helper()
	if config == "" {
		config = silent
	}
	s := &Server{t: t, binary: locate(t), dir: t.TempDir()}
	if err := os.WriteFile(s.configFile(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("Alertmanager at %s said:\n%s", s.URL, s.output.String())
		}
	})
	// Somebody else may take a port between finding it and its use.
	var err error
	for range 3 {
		s.URL = "http://" + freeAddress(t)
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

func locate(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"prometheus-alertmanager", "alertmanager"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "there is no prometheus-alertmanager: apt-get install prometheus-alertmanager"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip("SKIPPED, nothing is delivered to a real Alertmanager: " + missing)
	return ""
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *Server) configFile() string { return filepath.Join(s.dir, "alertmanager.yaml") }

// start starts the process and waits until it answers.
func (s *Server) start() error {
	s.cmd = exec.Command(s.binary, //nolint:noctx // it outlives the test's context, to be stopped in order
		"--config.file="+s.configFile(),
		"--storage.path="+filepath.Join(s.dir, "data"),
		"--web.listen-address="+s.URL[len("http://"):],
		"--cluster.listen-address=", // no cluster
	)
	s.cmd.SysProcAttr = endWithParent()
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("starting Alertmanager: %w", err)
	}
	cmd, done := s.cmd, make(chan struct{})
	s.done = done
	go func() {
		_ = cmd.Wait() // how it ended is in its output
		close(done)
	}()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-done:
			s.cmd = nil
			return fmt.Errorf("Alertmanager ended at its start:\n%s", s.output.String()) //nolint:staticcheck // its name
		case <-time.After(20 * time.Millisecond):
		}
		if s.ready() {
			return nil
		}
	}
	s.Kill()
	return fmt.Errorf("waiting for Alertmanager to be ready:\n%s", s.output.String())
}

func (s *Server) ready() bool {
	resp, err := http.Get(s.URL + "/-/ready") //nolint:noctx // loopback
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Stop stops it in order, so that it keeps its silences and the log of its
// notifications; alerts it forgets. It does nothing if it is stopped.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends it at once. It does nothing if it is stopped.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	// Its end may come first.
	_ = s.cmd.Process.Signal(signal)
	select {
	case <-s.done:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.done
		s.t.Errorf("Alertmanager did not stop on %s", signal)
	}
	s.cmd = nil
}

// Restart starts it again, at the same URL and on the same data, after stopping
// it if it runs.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// Alert is an alert as Alertmanager's API shows it.
type Alert struct {
	Labels       map[string]string
	Annotations  map[string]string
	StartsAt     time.Time
	EndsAt       time.Time
	UpdatedAt    time.Time
	GeneratorURL string
	Fingerprint  string
	Status       struct {
		State       string
		InhibitedBy []string
		SilencedBy  []string
	}
}

// Alerts are the alerts that it knows and that are not resolved, by fingerprint.
func (s *Server) Alerts() []Alert {
	s.t.Helper()
	resp, err := http.Get(s.URL + "/api/v2/alerts") //nolint:noctx // loopback
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out []Alert
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("listing alerts: %s, %v", resp.Status, err)
	}
	return out
}

// output is what the process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
