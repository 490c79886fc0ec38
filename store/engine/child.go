package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// child is one engine under supervision.
type child struct {
	name string
	log  *slog.Logger

	// prepare makes everything ready and says what to start. It runs before
	// every start, the first and the later ones.
	prepare func(ctx context.Context) (command, error)
	// probe returns nil once the engine answers. An error that waiting cannot
	// cure is marked with backoff.Permanent.
	probe func(ctx context.Context) error
	// started, if any, is told the process id.
	started func(pid int) error
	// parse understands a line that the child prints.
	parse func(line string) record
	// again reports whether a start that ended with err is worth repeating
	// within the start timeout.
	again func(err error) bool

	startTimeout time.Duration
	steps        []step

	restarts atomic.Int64
	up       atomic.Bool

	mu      sync.Mutex
	process *process
}

// start starts the engine and waits until it answers. On an error nothing runs.
func (c *child) start(ctx context.Context) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, c.startTimeout,
		fmt.Errorf("not ready within %s", c.startTimeout))
	defer cancel()
	for {
		p, err := c.startOnce(ctx)
		if err == nil {
			c.mu.Lock()
			c.process = p
			c.mu.Unlock()
			c.up.Store(true)
			c.log.InfoContext(ctx, "engine is ready", "pid", p.pid, "duration_ms", time.Since(begin).Milliseconds())
			return nil
		}
		if c.again == nil || !c.again(err) || sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("starting %s: %w", c.name, err)
		}
	}
}

func (c *child) startOnce(ctx context.Context) (*process, error) {
	cmd, err := c.prepare(ctx)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(cmd, newRelay(c.log, c.parse))
	if err != nil {
		return nil, err
	}
	if c.started != nil {
		err = c.started(p.pid)
	}
	if err == nil {
		err = c.await(ctx, p)
	}
	if err != nil {
		return nil, errors.Join(err, p.stop(c.steps))
	}
	return p, nil
}

// await polls the probe until the engine answers, dies, or ctx ends.
func (c *child) await(ctx context.Context, p *process) error {
	pause := 10 * time.Millisecond
	for {
		probe, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := c.probe(probe)
		cancel()
		if err == nil {
			return nil
		}
		var permanent *backoff.PermanentError
		if errors.As(err, &permanent) {
			return permanent.Unwrap()
		}
		timer := time.NewTimer(pause)
		select {
		case <-p.done:
			timer.Stop()
			return p.exit()
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w; its output is in our log under component=%s, the last lines were: %s",
				context.Cause(ctx), err, c.name, p.output.last())
		case <-timer.C:
		}
		pause = min(pause*3/2, 250*time.Millisecond)
	}
}

// supervise keeps the engine running until ctx ends, then returns nil. It does
// not stop it.
func (c *child) supervise(ctx context.Context) error {
	delay := &backoff.ExponentialBackOff{
		InitialInterval:     100 * time.Millisecond,
		RandomizationFactor: 0.5,
		Multiplier:          2,
		// Half a minute: an engine that keeps dying must not keep two cores busy
		// with recoveries, and nobody waits longer than that after a repair.
		MaxInterval: 30 * time.Second,
	}
	for {
		p := c.current()
		select {
		case <-ctx.Done():
			return nil
		case <-p.done:
		}
		c.up.Store(false)
		c.log.ErrorContext(ctx, "engine died and will be started again", "pid", p.pid, "lived_ms", time.Since(p.started).Milliseconds(), "error", p.exit())
		// A minute of life shows that the cause is not in the start.
		if time.Since(p.started) > time.Minute {
			delay.Reset()
		}
		if !c.restart(ctx, delay) {
			return nil
		}
	}
}

// restart starts the engine again and again until it answers; false means that
// ctx ended first.
func (c *child) restart(ctx context.Context, delay *backoff.ExponentialBackOff) bool {
	for {
		if sleep(ctx, delay.NextBackOff()) != nil {
			return false
		}
		c.restarts.Add(1)
		err := c.start(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		c.log.ErrorContext(ctx, "engine does not start and will be tried again", "error", err)
	}
}

func (c *child) current() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// stop stops the engine, if it runs.
func (c *child) stop() error {
	p := c.current()
	if p == nil {
		return nil
	}
	c.up.Store(false)
	begin := time.Now()
	if err := p.stop(c.steps); err != nil {
		return fmt.Errorf("stopping %s: %w", c.name, err)
	}
	c.log.Info("engine stopped", "pid", p.pid, "duration_ms", time.Since(begin).Milliseconds())
	return nil
}
