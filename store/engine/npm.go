package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// findNPM says what to do where there is none.
func findNPM() (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("looking for npm, which installs the embedded engines: %w; install Node.js 20 or later, or configure the addresses of a ClickHouse and a Postgres", err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("looking for node, which npm needs: %w; install Node.js 20 or later", err)
	}
	return npm, nil
}

// runNPM downloads what the lock file in dir lists for this platform; npm checks
// every package against the lock file's hash. Scripts of packages are not run.
func runNPM(ctx context.Context, npm, dir string, progress io.Writer) error {
	_, _ = fmt.Fprintln(progress, "downloading ClickHouse and Postgres (about 200 MB)")
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund",
		"--no-update-notifier", "--install-strategy=hoisted", "--include=optional", "--no-progress", "--loglevel=error")
	cmd.Dir = dir
	cmd.Env = os.Environ() // proxies, the user's registry, HOME
	output := &tail{next: progress}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running npm ci: %w: %s", errors.Join(ctx.Err(), err), output.kept)
	}
	return nil
}

// tail passes writes on and keeps the last of them for an error message.
type tail struct {
	next io.Writer
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	const keep = 1 << 10
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - keep; over > 0 {
		t.kept = t.kept[over:]
	}
	_, _ = t.next.Write(b) // a progress that nobody reads must not stop the install
	return len(b), nil
}
