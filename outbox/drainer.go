package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// Source is an outbox with events E.
type Source[E any] interface {
	// Drain hands up to limit events to into and removes them if it succeeds.
	// Whatever fails, they stay.
	Drain(ctx context.Context, limit int, into func(context.Context, []E) error) (n int, err error)
	// Backlog is how many events wait, counted up to limit, and since when.
	Backlog(ctx context.Context, limit int) (n int, oldest time.Time, err error)
}

// Sink is where the events go.
type Sink[E any] struct {
	// Name is what metrics and logs call it.
	Name string
	// Take takes events durably. One that it has counts once, and none is refused
	// for its values: one that were would hold up the rest.
	Take func(ctx context.Context, events []E) error
}

// postgres is what metrics and logs call the store of the outbox.
const postgres = "postgres"

// backlogLimit bounds what counting the backlog costs.
const backlogLimit = 10_000

// Drainer copies events from an outbox to where they go. One goroutine owns it,
// in Run.
type Drainer[E any] struct {
	cfg     Config
	from    Source[E]
	to      Sink[E]
	log     *slog.Logger
	metrics *metrics

	failing time.Time // since when; zero: the last attempt succeeded
}

// NewDrainer returns a drainer; Run starts it. name tells its metrics and logs
// from those of other outboxes.
func NewDrainer[E any](cfg Config, name string, from Source[E], to Sink[E], log *slog.Logger, reg prometheus.Registerer) *Drainer[E] {
	return &Drainer[E]{
		cfg: cfg, from: from, to: to, log: log.With("component", "outbox", "outbox", name),
		metrics: newMetrics(prometheus.WrapRegistererWith(prometheus.Labels{"outbox": name}, reg), to.Name),
	}
}

// Run drains until ctx ends. It returns no error: a failure is repeated, after
// a growing, jittered pause, for as long as it takes. A batch that is being
// copied when ctx ends is given up, and copied again by the next drainer.
func (d *Drainer[E]) Run(ctx context.Context) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = d.cfg.Every, d.cfg.RetryMax
	for {
		err := d.runOnce(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // what was not copied waits in Postgres
		}
		d.note(err)
		// Jittered either way, so that replicas do not keep step.
		pause := d.cfg.Every/2 + rand.N(d.cfg.Every)
		if err != nil {
			pause = policy.NextBackOff()
		} else {
			policy.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// runOnce copies batch by batch until one is not full.
func (d *Drainer[E]) runOnce(ctx context.Context) error {
	for {
		n, err := d.batch(ctx)
		if err == nil && n == d.cfg.Batch {
			continue
		}
		// The backlog matters most while it does not shrink.
		if e := d.measure(ctx); err == nil {
			err = e
		}
		return err
	}
}

// batch copies one batch and returns how many events it had.
func (d *Drainer[E]) batch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	var (
		taken   int
		refusal error
	)
	n, err := d.from.Drain(ctx, d.cfg.Batch, func(ctx context.Context, events []E) error {
		taken = len(events)
		refusal = d.to.Take(ctx, events)
		return refusal
	})
	switch {
	case err == nil:
		d.metrics.events.WithLabelValues(copied).Add(float64(n))
		return n, nil
	case refusal != nil:
		d.metrics.events.WithLabelValues(refused).Add(float64(taken))
		return 0, d.failed(d.to.Name, refusal)
	}
	// It has what was taken, if anything was.
	d.metrics.events.WithLabelValues(repeated).Add(float64(taken))
	return 0, d.failed(postgres, err)
}

// measure updates the gauges.
func (d *Drainer[E]) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	n, oldest, err := d.from.Backlog(ctx, backlogLimit)
	if err != nil {
		return d.failed(postgres, err)
	}
	lag := time.Duration(0)
	if n > 0 {
		lag = max(time.Since(oldest), 0)
	}
	d.metrics.pending.Set(float64(n))
	d.metrics.lag.Set(lag.Seconds())
	return nil
}

func (d *Drainer[E]) failed(store string, err error) error {
	d.metrics.failures.WithLabelValues(store).Inc()
	return fmt.Errorf("copying events (%s): %w", store, err)
}

// note logs the begin and the end of an outage, once each.
func (d *Drainer[E]) note(err error) {
	switch {
	case err != nil && d.failing.IsZero():
		d.failing = time.Now()
		d.log.Warn("events do not get through; they stay in the outbox", "to", d.to.Name, "error", err)
	case err == nil && !d.failing.IsZero():
		d.log.Info("events get through again", "to", d.to.Name, "away_seconds", time.Since(d.failing).Seconds())
		d.failing = time.Time{}
	}
}
