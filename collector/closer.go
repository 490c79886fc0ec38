package collector

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Closer sums buckets that have come to rest into the rollup. Any number of
// replicas may run one; without any, every figure stays right and gets slower
// to read.
type Closer struct {
	cfg     Config
	ledger  Ledger
	log     *slog.Logger
	metrics *closerMetrics
}

// NewCloser returns a closer; Run starts it.
func NewCloser(cfg Config, ledger Ledger, log *slog.Logger, reg prometheus.Registerer) *Closer {
	return &Closer{cfg: cfg, ledger: ledger, log: log.With("component", "closer"), metrics: newCloserMetrics(reg)}
}

// Run closes until ctx ends. A pass that fails is repeated: nothing depends on
// its success but speed.
func (c *Closer) Run(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.CloseEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := c.runOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			c.metrics.errs.Inc()
			if !failing {
				c.log.Warn("closing buckets does not work; figures stay right, queries get slower", "error", err)
			}
		case failing:
			c.log.Info("closing buckets works again")
		}
		failing = err != nil
	}
}

// runOnce closes what is due, pass by pass, until nothing is.
func (c *Closer) runOnce(ctx context.Context) error {
	for {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
		buckets, err := c.ledger.CloseBuckets(ctx, c.cfg.Quiet, c.cfg.CloseLimit)
		hours := 0
		if err == nil {
			hours, err = c.ledger.CloseHours(ctx, c.cfg.Quiet, c.cfg.CloseLimit)
		}
		var dirty uint64
		if err == nil {
			dirty, err = c.ledger.DirtyBuckets(ctx)
		}
		cancel()
		if err != nil {
			return err
		}
		c.metrics.closed.WithLabelValues("5m").Add(float64(buckets))
		c.metrics.closed.WithLabelValues("1h").Add(float64(hours))
		c.metrics.dirty.Set(float64(dirty))
		if buckets == 0 && hours == 0 {
			return nil
		}
	}
}
