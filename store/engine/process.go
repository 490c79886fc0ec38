package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// command is what it takes to start a process.
type command struct {
	path string
	args []string // without the name of the program
	name string   // the program's name in a list of processes; empty means path
	dir  string
	env  []string

	account *account
	// onParentDeath is what the kernel sends the child when we die, however we
	// die. Linux only.
	onParentDeath syscall.Signal
	// leash gives the child a standard input that ends when we do: the portable
	// way to tell, for a child that watches it.
	leash bool
}

// step is one step of stopping a process: a signal, and how long to wait for it
// to work.
type step struct {
	signal syscall.Signal
	wait   time.Duration
}

// process is a running child. It is safe for concurrent use.
type process struct {
	pid     int
	started time.Time
	output  *relay
	done    chan struct{} // closed once the process is gone
	err     error         // why it went; valid once done is closed

	signal func(syscall.Signal) error
}

// startProcess starts c. The process belongs to no context: it runs until it
// exits or stop is called.
func startProcess(c command, output *relay) (*process, error) {
	cmd := exec.Command(c.path, c.args...) //nolint:noctx // see above
	if c.name != "" {
		cmd.Args[0] = c.name
	}
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.Stdout, cmd.Stderr = output, output
	// A child of the child may keep the pipe open a moment longer than it lives.
	cmd.WaitDelay = 2 * time.Second
	// A group of its own: a Ctrl-C in a terminal then reaches only us, and we
	// stop the engines after their clients.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.account.credential()}
	signalOnParentDeath(cmd.SysProcAttr, c.onParentDeath)

	leash, err := tie(cmd, c.leash)
	if err != nil {
		return nil, err
	}
	p := &process{output: output, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread that started
		// the child ends, not the process: this thread must live as long as the
		// child. It is never unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		defer leash()
		if err := cmd.Start(); err != nil {
			started <- c.account.explainStart(err)
			return
		}
		started <- nil
		p.err = cmd.Wait()
		output.flush()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid, p.started = cmd.Process.Pid, time.Now()
	p.signal = func(s syscall.Signal) error { return cmd.Process.Signal(s) }
	return p, nil
}

// tie gives cmd a standard input that stays open until the returned function is
// called, or this process is gone.
func tie(cmd *exec.Cmd, wanted bool) (untie func(), err error) {
	if !wanted {
		return func() {}, nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe for the child: %w", err)
	}
	cmd.Stdin = theirs
	return func() { _ = theirs.Close(); _ = ours.Close() }, nil
}

// stop goes through the steps until the process is gone.
func (p *process) stop(steps []step) error {
	for _, s := range steps {
		select {
		case <-p.done:
			return nil
		default:
		}
		_ = p.signal(s.signal) // an error means that it is gone: done says so
		if p.wait(s.wait) {
			return nil
		}
	}
	return fmt.Errorf("stopping process %d: still there after every signal", p.pid)
}

// wait reports whether the process went within d.
func (p *process) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// exit describes how the process ended; call it once done is closed.
func (p *process) exit() error {
	err := p.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	if tail := p.output.last(); tail != "" {
		return fmt.Errorf("%w; its last lines were: %s", err, tail)
	}
	return err
}

// runProcess runs c to its end, or kills it and what it started when ctx ends.
func runProcess(ctx context.Context, c command, output *relay) error {
	p, err := startProcess(c, output)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // its group
		<-p.done
		return context.Cause(ctx)
	}
	if p.err != nil {
		return p.exit()
	}
	return nil
}
