package outbox

import (
	"errors"
	"time"
)

// Config says how the outbox is drained. Start from [DefaultConfig].
type Config struct {
	// Every is how long the outbox rests when it is empty. Default 1 s, about
	// how late the analytics are. Too low: an insert, which ClickHouse syncs
	// and merges, for every few events.
	Every time.Duration
	// Batch is how many events are copied at once. Default 5000, about 2 MB.
	// Too low: many small inserts after an outage; too high: long transactions,
	// during which Postgres cleans up nothing.
	Batch int
	// Timeout bounds copying one batch. Default 30 s. Too low and a slow
	// ClickHouse never takes one; too high and one that hangs holds a
	// transaction open for that long.
	Timeout time.Duration
	// RetryMax bounds the wait after a failure. Default 15 s: the analytics lag
	// that much longer after an outage.
	RetryMax time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Every: time.Second, Batch: 5000, Timeout: 30 * time.Second, RetryMax: 15 * time.Second}
}

// Validate reports every mistake at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Every <= 0 || c.Timeout <= 0 || c.RetryMax <= 0 {
		errs = append(errs, errors.New("outbox: times must be positive"))
	}
	if c.Batch < 1 || c.Batch > 50_000 {
		errs = append(errs, errors.New("outbox: a batch must have 1 to 50000 events"))
	}
	return errors.Join(errs...)
}
