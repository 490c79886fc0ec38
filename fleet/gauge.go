package fleet

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges are metrics that are worked out from time to time, all at once. Until
// they were for the first time there are none. A failure leaves the last ones.
type gauges struct {
	what    string
	every   time.Duration
	timeout time.Duration
	read    func(ctx context.Context) ([]prometheus.Metric, error)
	descs   []*prometheus.Desc
	log     *slog.Logger
	failed  prometheus.Counter // of register

	mu   sync.Mutex
	last []prometheus.Metric
}

func (g *gauges) register(log *slog.Logger, reg prometheus.Registerer) {
	g.log = log.With("component", "fleet")
	g.failed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tatara_ledger_fleet_reading_failures_total", Help: "Attempts to bring gauges up to date that failed, by what they are of. They keep their last values.",
		ConstLabels: prometheus.Labels{"of": g.what},
	})
	reg.MustRegister(g, g.failed)
}

// Describe implements [prometheus.Collector].
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.last {
		ch <- m
	}
}

// run reads until ctx ends.
func (g *gauges) run(ctx context.Context) error {
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	failing := false
	for {
		err := g.update(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			g.failed.Inc()
			if !failing {
				g.log.Warn("metrics stand still", "of", g.what, "error", err)
			}
		case failing:
			g.log.Info("metrics go on", "of", g.what)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (g *gauges) update(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	now, err := g.read(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = now
	return nil
}

// gauge is one value.
func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "") // or the whole scrape fails
	}
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}
