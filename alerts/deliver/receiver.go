package deliver

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// maxBatch is how many alerts one request carries, as in Prometheus.
const maxBatch = 256

// receiver is one Alertmanager with what waits for it.
type receiver struct {
	log       *slog.Logger
	metrics   receiverMetrics
	manager   *alertmanager
	queue     *queue
	recovered func()

	failing  atomic.Bool
	overflow atomic.Bool // since it last was empty: said once
	refused  time.Time   // when that was last said; run's own
}

func (r *receiver) add(alerts []Alert) {
	full, late := r.queue.add(alerts)
	r.metrics.stopped.Add(float64(late))
	r.dropOldest(full)
}

func (r *receiver) dropOldest(n int) {
	if n == 0 {
		return
	}
	r.metrics.full.Add(float64(n))
	if !r.overflow.Swap(true) {
		r.log.Error("more alerts fire than may wait for an Alertmanager: the oldest are dropped; raise --alert-queue")
	}
}

// run delivers until stop is done, then makes an attempt at what is left that
// ends with hard.
func (r *receiver) run(stop, hard context.Context) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.Multiplier = 250*time.Millisecond, 2
	retry.MaxInterval = 3 * time.Second // with the jitter, one that came back gets its alerts within 4.5 s
	for r.wait(stop) {
		if r.sendNext(hard) {
			retry.Reset()
			continue
		}
		select {
		case <-stop.Done():
		case <-time.After(retry.NextBackOff()):
		}
	}
	for answers := true; answers && r.queue.len() > 0; {
		answers = r.sendNext(hard)
	}
	if n := r.queue.close(); n > 0 {
		r.metrics.stopped.Add(float64(n))
		r.log.Warn("stopped before an Alertmanager took all alerts", "alerts", n)
	}
	r.manager.close()
}

// wait blocks until there is something to send, and reports whether to go on.
func (r *receiver) wait(stop context.Context) bool {
	for {
		if stop.Err() != nil {
			return false
		}
		if r.queue.len() > 0 {
			return true
		}
		select {
		case <-stop.Done():
		case <-r.queue.wake:
		}
	}
}

// sendNext sends one batch and reports whether the Alertmanager answers.
func (r *receiver) sendNext(ctx context.Context) bool {
	rest, err := r.deliver(ctx, r.queue.take(maxBatch))
	if len(rest) == 0 { // it answers, whatever it refused
		if r.queue.len() == 0 {
			r.overflow.Store(false)
			if r.failing.Swap(false) {
				r.log.Info("alerts reach an Alertmanager again")
				r.recovered()
			}
		}
		return true
	}
	if !r.failing.Swap(true) {
		r.log.Error("alerts do not reach an Alertmanager; they wait and are sent again", "error", err)
	}
	r.dropOldest(r.queue.putBack(rest))
	return false
}

// deliver posts alerts and returns those to send again. Invalid ones are looked
// for by halves, so that they do not hold up the others, and dropped.
func (r *receiver) deliver(ctx context.Context, alerts []Alert) (rest []Alert, err error) {
	err = r.manager.post(ctx, alerts)
	switch {
	case err == nil:
		r.metrics.delivered.Add(float64(len(alerts)))
		return nil, nil
	case !errors.Is(err, errRefused):
		r.metrics.failures.Inc()
		return alerts, err
	case len(alerts) == 1:
		r.metrics.failures.Inc()
		r.metrics.refused.Inc()
		if now := time.Now(); now.Sub(r.refused) > time.Minute {
			r.refused = now
			r.log.Error("an Alertmanager finds an alert invalid: it is dropped", "labels", alerts[0].Labels, "error", err)
		}
		return nil, err
	}
	half := len(alerts) / 2
	rest1, err1 := r.deliver(ctx, alerts[:half])
	if len(rest1) > 0 {
		return append(rest1, alerts[half:]...), err1
	}
	rest2, err2 := r.deliver(ctx, alerts[half:])
	return rest2, errors.Join(err1, err2)
}
