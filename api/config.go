package api

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// DefaultConfig has the defaults of the bounds.
func DefaultConfig() Config {
	return Config{MaxHandoffBytes: 64 << 10, MaxMessageBytes: 32 << 10, MaxWait: 30 * time.Second}
}

// Flags adds the flags of the bounds.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.IntVar(&c.MaxHandoffBytes, "max-handoff-bytes", c.MaxHandoffBytes, "how many `bytes` the body of a handoff may have")
	f.IntVar(&c.MaxMessageBytes, "max-message-bytes", c.MaxMessageBytes, "how many `bytes` the body of a message may have")
	f.DurationVar(&c.MaxWait, "max-poll-wait", c.MaxWait, "how long a poll may wait for messages")
}

// Validate reports every mistake at once in the bounds.
func (c *Config) Validate() error {
	const (
		// Postgres searches texts whose words, with their places, fit in 1 MiB.
		mostHandoff = 256 << 10
		// A page of 500 must fit in memory.
		mostMessage = 256 << 10
	)
	var errs []error
	if c.MaxHandoffBytes < 1 || c.MaxHandoffBytes > mostHandoff {
		errs = append(errs, errors.New("--max-handoff-bytes must be 1 to 262144 (256 KiB): a larger text cannot be searched"))
	}
	if c.MaxMessageBytes < 1 || c.MaxMessageBytes > mostMessage {
		errs = append(errs, errors.New("--max-message-bytes must be 1 to 262144 (256 KiB)"))
	}
	if c.MaxWait < time.Second || c.MaxWait > time.Minute {
		errs = append(errs, errors.New("--max-poll-wait must be a second to a minute: the clients give up after 60 s"))
	}
	return errors.Join(errs...)
}

// Expired returns what counts the rooms that were archived because their time
// was over, and the notices in them.
func Expired(reg prometheus.Registerer) func(rooms int) {
	m := newChatMetrics(reg)
	return func(rooms int) {
		m.rooms.WithLabelValues("ttl_archived").Add(float64(rooms))
		m.messages.WithLabelValues("system", "global").Add(float64(rooms))
	}
}
