package tasks

import (
	"errors"
	"time"
)

// Config says how the ledger is watched. Start from [DefaultConfig].
type Config struct {
	// Every is how often the marks are read. Default 1 s. Too low: more queries
	// on an idle ledger; too high: figures that are older than callers expect.
	Every time.Duration
	// Window is how far back a bucket is kept by itself; older ones are kept by
	// the day. Default 2 h, at least 65 min. Too low: a late charge reads a
	// whole day again; too high: memory, about 400 bytes for each task in each
	// bucket.
	Window time.Duration
	// Retain is how long a task stays in memory after its last spend when there
	// are more than MaxTasks. Default 7 days. Too low: tasks that go on after a
	// pause are loaded by a query that reads all spend; too high: memory.
	Retain time.Duration
	// MaxTasks is how many tasks are kept before any is dropped; those within
	// Retain are kept even then. Default 200 000, about 300 MB.
	MaxTasks int
	// Reconcile is how often all totals are compared with those of the ledger.
	// Default 10 min. Too low: a query that reads all spend, so often; too
	// high: a mistake of ours lasts longer.
	Reconcile time.Duration
	// Timeout bounds one query. Default 2 min; reading the marks has a twelfth
	// of it. Too low: a large ledger is never loaded; too high: a connection that
	// hangs is noticed late.
	Timeout time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Every:     time.Second,
		Window:    2 * time.Hour,
		Retain:    7 * 24 * time.Hour,
		MaxTasks:  200_000,
		Reconcile: 10 * time.Minute,
		Timeout:   2 * time.Minute,
	}
}

// Validate reports every mistake at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Every <= 0 || c.Reconcile <= 0 || c.Timeout <= 0 {
		errs = append(errs, errors.New("tasks: times must be positive"))
	}
	if c.Window < hour+bucket {
		errs = append(errs, errors.New("tasks: the window must be 65 minutes or longer"))
	}
	if c.Retain < 24*time.Hour {
		errs = append(errs, errors.New("tasks: tasks must be retained for a day or longer"))
	}
	if c.MaxTasks < 1 {
		errs = append(errs, errors.New("tasks: at least one task must be kept"))
	}
	return errors.Join(errs...)
}
