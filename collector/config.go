package collector

import (
	"errors"
	"fmt"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Config configures the writer and the closer. Start from DefaultConfig.
type Config struct {
	// BatchFacts is how many facts are written at once. Default 50 000. Too
	// low: many small parts, which ClickHouse merges at a price; too high:
	// memory, about 1 KB a fact, and longer until a fact is visible.
	BatchFacts int
	// BatchBytes bounds a batch by its size in the journal. Default 32 MiB.
	BatchBytes int
	// Linger is how long a batch that is not full waits for more. Default
	// 500 ms: a fact must be visible within a second. Too low: small inserts,
	// whose parts, syncs and merges cost far more disk than their rows
	// (collector-contrib#47843).
	Linger time.Duration
	// AttemptTimeout bounds one attempt to write a batch. Default 2 min; it
	// must stay below half of clickhouse.AbandonedAfter.
	AttemptTimeout time.Duration
	// RetryMax bounds the wait between attempts. Default 5 s. Too high: the
	// ledger lags that much longer after an outage.
	RetryMax time.Duration
	// ConflictWindow is how long an id that a caller gave counts once, however
	// different what comes under it. Default 48 h.
	ConflictWindow time.Duration
	// LabelBounds are how many values each label may have; more are folded
	// into "other". Defaults: see DefaultLabelBounds. Too high: a label that
	// carries an id by mistake makes every query slow.
	LabelBounds LabelBounds
	// CloseEvery is the closer's period. Default 1 s.
	CloseEvery time.Duration
	// CloseLimit is how many buckets one pass closes. Default 500.
	CloseLimit int
	// Quiet says when a bucket is closed. Default 5 s after its last charge
	// if it is over, a minute if it is not.
	Quiet clickhouse.Quiet
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		BatchFacts:     50_000,
		BatchBytes:     32 << 20,
		Linger:         500 * time.Millisecond,
		AttemptTimeout: 2 * time.Minute,
		RetryMax:       5 * time.Second,
		ConflictWindow: 48 * time.Hour,
		LabelBounds:    DefaultLabelBounds(),
		CloseEvery:     time.Second,
		CloseLimit:     500,
		Quiet:          clickhouse.Quiet{Settled: 5 * time.Second, Idle: time.Minute},
	}
}

// Validate reports every field that cannot work.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, ok bool) {
		if !ok {
			errs = append(errs, fmt.Errorf("collector: %s must be positive", name))
		}
	}
	positive("batch facts", c.BatchFacts > 0)
	positive("batch bytes", c.BatchBytes > 0)
	positive("linger", c.Linger > 0)
	positive("retry max", c.RetryMax > 0)
	positive("conflict window", c.ConflictWindow > 0)
	positive("close period", c.CloseEvery > 0)
	positive("close limit", c.CloseLimit > 0)
	positive("quiet times", c.Quiet.Settled > 0 && c.Quiet.Idle > 0)
	for _, b := range c.LabelBounds.labels() {
		positive("bound of "+b.name, b.bound > 0)
	}
	if c.AttemptTimeout <= 0 || c.AttemptTimeout >= clickhouse.AbandonedAfter/2 {
		errs = append(errs, fmt.Errorf("collector: attempt timeout must lie between 0 and %s", clickhouse.AbandonedAfter/2))
	}
	return errors.Join(errs...)
}
