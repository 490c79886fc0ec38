package outbox

import "github.com/prometheus/client_golang/prometheus"

// The results of copying events.
const (
	copied   = "copied"   // taken, and no longer in the outbox
	refused  = "refused"  // not taken; they stay
	repeated = "repeated" // taken, but still in the outbox: they are copied again
)

type metrics struct {
	events   *prometheus.CounterVec
	failures *prometheus.CounterVec
	pending  prometheus.Gauge
	lag      prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, sink string) *metrics {
	m := &metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_outbox_events_total",
			Help: "Events by what became of a copy: copied, refused (they stay in the outbox), repeated (they were taken, and will be sent again).",
		}, []string{"result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_outbox_failures_total",
			Help: "Attempts to drain the outbox that failed, by what failed: Postgres, or where the events go. Nothing is lost; it is late.",
		}, []string{"store"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tatara_ledger_outbox_pending_rows",
			Help: "Events that were not taken yet, counted up to 10000.",
		}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tatara_ledger_outbox_lag_seconds",
			Help: "Age of the oldest event that was not taken yet; 0 if there is none.",
		}),
	}
	for _, result := range []string{copied, refused, repeated} {
		m.events.WithLabelValues(result)
	}
	for _, store := range []string{postgres, sink} {
		m.failures.WithLabelValues(store)
	}
	reg.MustRegister(m.events, m.failures, m.pending, m.lag)
	return m
}
