package outbox

import "github.com/prometheus/client_golang/prometheus"

// The results of copying events.
const (
	copied   = "copied"   // in the ledger, and no longer in the outbox
	refused  = "refused"  // the ledger did not take them; they stay
	repeated = "repeated" // in the ledger, but still in the outbox: they are copied again
)

type metrics struct {
	events   *prometheus.CounterVec
	failures *prometheus.CounterVec
	pending  prometheus.Gauge
	lag      prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_outbox_events_total",
			Help: "Events of handoffs and rooms by what became of a copy to the ledger: copied, refused (they stay in the outbox), repeated (the ledger has them, and will be sent them again).",
		}, []string{"result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_outbox_failures_total",
			Help: "Attempts to drain the outbox that failed, by the store that failed. Nothing is lost; the analytics are late.",
		}, []string{"store"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tatara_ledger_outbox_pending_rows",
			Help: "Events that are not in the ledger yet, counted up to 10000.",
		}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tatara_ledger_outbox_lag_seconds",
			Help: "Age of the oldest event that is not in the ledger yet; 0 if there is none.",
		}),
	}
	for _, result := range []string{copied, refused, repeated} {
		m.events.WithLabelValues(result)
	}
	for _, store := range []string{postgres, clickhouse} {
		m.failures.WithLabelValues(store)
	}
	reg.MustRegister(m.events, m.failures, m.pending, m.lag)
	return m
}
