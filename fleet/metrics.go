package fleet

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	failures prometheus.Counter
	scrapes  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, leads func() bool, lag func() time.Duration) *metrics {
	m := &metrics{
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_fleet_refresh_failures_total", Help: "Attempts to bring the fleet's counters up to date that failed; the next one makes good.",
		}),
		scrapes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_fleet_scrape_failures_total", Help: "Scrapes of the fleet's counters that got old values because Postgres did not answer.",
		}),
	}
	reg.MustRegister(m.failures, m.scrapes,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tatara_ledger_fleet_leader", Help: "1 if this replica is the one that exposes the fleet's counters.",
		}, func() float64 {
			if leads() {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tatara_ledger_fleet_lag_seconds", Help: "Time since the replica that exposes the fleet's counters read the ledger to its end; 0 for the others.",
		}, func() float64 { return lag().Seconds() }))
	return m
}
