package receive

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Config bounds what receivers take. Start from DefaultConfig.
type Config struct {
	// PushBytes bounds the body of a push. Default 1 MiB, as the wrappers'
	// operator has it. Too low: wrappers with many tools are refused.
	PushBytes int64
	// CallBytes bounds the body of posted calls, after decompression. Default
	// 16 MiB. Too high: few requests fill InFlightBytes.
	CallBytes int64
	// InFlightBytes bounds what the requests of one moment hold: their bodies,
	// and 1 KiB per decoded call. A quarter is for pushes alone. Default 256
	// MiB. What does not fit waits up to AdmissionWait, then gets a 503.
	InFlightBytes int64
	// AdmissionWait is how long a request waits for room. Default 2 s.
	AdmissionWait time.Duration
	// LabelBytes bounds each label. Default 1024. A longer one is refused.
	LabelBytes int
	// Earliest is the oldest time a call may carry. Default 2015-01-01: a
	// model call from before is a broken clock or a missing one.
	Earliest time.Time
	// Ahead is how far a call may lie in the future, for clocks that are off.
	// Default 24 h.
	Ahead time.Duration
	// RetryAfter is what a client is told when there is no room. Default 5 s.
	RetryAfter time.Duration
	// ForwardTo receives a copy of each push, unless empty. It never delays or
	// fails ours.
	ForwardTo string
	// ForwardQueue is how many copies wait for a slow ForwardTo. Default 1024;
	// what does not fit is dropped and counted.
	ForwardQueue int
	// ForwardBytes bounds the bodies of the copies that wait. Default 64 MiB;
	// what does not fit is dropped and counted.
	ForwardBytes int64
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		PushBytes:     1 << 20,
		CallBytes:     16 << 20,
		InFlightBytes: 256 << 20,
		AdmissionWait: 2 * time.Second,
		LabelBytes:    1024,
		Earliest:      time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC),
		Ahead:         24 * time.Hour,
		RetryAfter:    5 * time.Second,
		ForwardQueue:  1024,
		ForwardBytes:  64 << 20,
	}
}

func (c Config) pushRoom() int64 { return c.InFlightBytes / 4 }

// Validate reports every field that cannot work.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, ok bool) {
		if !ok {
			errs = append(errs, fmt.Errorf("receive: %s must be positive", name))
		}
	}
	positive("push bytes", c.PushBytes > 0)
	positive("call bytes", c.CallBytes > 0)
	positive("label bytes", c.LabelBytes > 0)
	positive("forward queue", c.ForwardQueue > 0)
	positive("forward bytes", c.ForwardBytes > 0)
	if c.pushRoom() < c.PushBytes {
		errs = append(errs, errors.New("receive: a quarter of the in-flight bytes must hold one push"))
	}
	if c.InFlightBytes-c.pushRoom() < max(mostForPosted(c.CallBytes), linkBytes) {
		errs = append(errs, errors.New("receive: three quarters of the in-flight bytes must hold one post of calls, decoded"))
	}
	if c.ForwardTo != "" {
		if u, err := url.Parse(c.ForwardTo); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			errs = append(errs, fmt.Errorf("receive: forward_to %q is no http(s) URL", c.ForwardTo))
		}
	}
	return errors.Join(errs...)
}
