package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait: what is waited for takes seconds on an idle
// machine.
const patience = 3 * time.Minute

// until polls, because what it waits for happens in another process.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// output collects what a process prints. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a running program of ours.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{} // closed when it has ended
	err            error         // how; read it after done
}

// start starts the program. Whatever becomes of the test, the process is ended.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(suite.binary, args...), done: make(chan struct{})}
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = 10 * time.Second // a child left behind must not hold us by the pipes
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error)
	suite.starts <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("tatara-ledger %s\n%s", strings.Join(args, " "), tail(p.stderr.String()))
		}
		if strings.Contains(p.stderr.String(), "DATA RACE") {
			t.Errorf("a data race in tatara-ledger %s:\n%s", args[0], p.stderr.String())
		}
	})
	return p
}

func tail(s string) string {
	const most = 6000
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return s
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// awaitExit waits until the process has ended by itself.
func (p *process) awaitExit(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("%s has not ended within %s", p.cmd, patience)
	}
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// command runs the program to its end.
func command(t *testing.T, args ...string) outcome {
	t.Helper()
	p := start(t, args...)
	p.awaitExit(t)
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		t.Fatalf("running %s: %v", p.cmd, p.err)
	}
	return outcome{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}

// folder is a folder that other users may pass through, unlike t.TempDir, and
// of a short name, as Postgres needs it for its socket. It is removed when the
// processes that use it are gone.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(suite.dir, "d") //nolint:usetesting // t.TempDir is closed to others and has a long name
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		until(t, "the processes on "+dir+" are gone", func() bool { return len(users(t, dir)) == 0 })
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "data")
}

// users are the processes, other than this one, whose command line names dir.
// Elsewhere than on Linux nobody can tell, and there are none.
func users(t *testing.T, dir string) []string {
	t.Helper()
	entries, _ := os.ReadDir("/proc")
	var found []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(raw), dir) {
			found = append(found, fmt.Sprintf("%d %s", pid, strings.ReplaceAll(string(raw), "\x00", " ")))
		}
	}
	return found
}

// freePort is a port that can be listened on again after a restart: it lies
// below those that the system gives to clients.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(15000+rand.IntN(15000)))
		var lc net.ListenConfig
		if l, err := lc.Listen(context.Background(), "tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}
