package fleet

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// Config says how the counters are kept. Start from [DefaultConfig].
type Config struct {
	// Refresh is how often the holder reads what is new in the ledger. Default
	// 5 s; the counters are late by up to as much. Too low: queries without end.
	Refresh time.Duration
	// Sweep is how often it looks back further, for what became visible late.
	// Default 1 min.
	Sweep time.Duration
	// Ping is how often the holder makes sure that it is, and how often the
	// others try to be. Default 1 s.
	Ping time.Duration
	// Lease is for how long after a ping the holder exposes, and how long a new
	// holder waits before it does. Default 5 s. Too low and a slow answer of
	// Postgres makes a gap; too high and each change of the holder makes a long one.
	Lease time.Duration
	// Silence is after what time without a ping Postgres takes the lock from a
	// holder that vanished or stands still. Default 15 s; more than Lease.
	Silence time.Duration
	// Stale is for how long the counters are exposed while the ledger cannot be
	// read. Default 30 s. A gap says more than counters that stand still.
	Stale time.Duration
	// Hold is for how long scrapes see the same values. Default 15 s. Too low, less
	// than the longest scrape interval: whoever scrapes first, a person with curl
	// included, takes a new counter's 0 away from the others, who miss what it began
	// with; too high: the counters are late by as much.
	Hold time.Duration
	// Timeout bounds each query. Default 1 min.
	Timeout time.Duration
	// Batch is how many runs are compared at once. Default 1000, under 1 MB.
	Batch int
	// Keep is for how long after its last charge a run is remembered. Default 60
	// days. A fact of a forgotten run counts if it is younger than that.
	Keep time.Duration
	// Recent is the age up to which spend is a rise to whoever reads the counters
	// when the ledger is read for the first time. Default 10 min. What is older
	// is in the counters from their first value on: an alert on years of spend in
	// one second helps nobody.
	Recent time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Refresh: 5 * time.Second, Sweep: time.Minute,
		Ping: time.Second, Lease: 5 * time.Second, Silence: 15 * time.Second,
		Stale: 30 * time.Second, Hold: 15 * time.Second, Timeout: time.Minute, Batch: 1000,
		Keep: 60 * 24 * time.Hour, Recent: 10 * time.Minute,
	}
}

// Flags adds the flags.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.DurationVar(&c.Hold, "fleet-hold", c.Hold, "for how long scrapes of /metrics/fleet see the same values: the longest scrape interval of those who scrape it")
}

// Validate reports every mistake at once.
func (c *Config) Validate() error {
	var errs []error
	if min(c.Refresh, c.Sweep, c.Ping, c.Stale, c.Timeout, c.Keep, c.Recent) <= 0 {
		errs = append(errs, errors.New("fleet: times must be positive"))
	}
	if c.Hold < 0 {
		errs = append(errs, errors.New("--fleet-hold must not be negative"))
	}
	if c.Lease < 2*c.Ping || c.Silence <= c.Lease {
		errs = append(errs, errors.New("fleet: a lease must be two pings or more, and shorter than the silence"))
	}
	if c.Batch < 1 || c.Batch > 50_000 {
		errs = append(errs, errors.New("fleet: a batch must have 1 to 50000 runs"))
	}
	return errors.Join(errs...)
}
