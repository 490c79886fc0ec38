package evaluate

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	evaluated   prometheus.Gauge
	duration    prometheus.Histogram
	firing      *prometheus.GaugeVec
	transitions *prometheus.CounterVec
	failures    *prometheus.CounterVec
	pending     prometheus.Gauge
	unnameable  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		evaluated: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tatara_ledger_alerts_evaluated_timestamp_seconds", Help: "When ceilings were last evaluated, or the service started, in seconds since 1970.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tatara_ledger_alerts_evaluation_duration_seconds", Help: "How long an evaluation of the ceilings took.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		firing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tatara_ledger_alerts_firing", Help: "Alerts of ceilings that fire, of all replicas together.",
		}, []string{"alertname"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_alerts_transitions_total", Help: "Alerts of ceilings that this replica made fire or resolve.",
		}, []string{"alertname", "state"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_alerts_evaluation_failures_total", Help: "Evaluations that ended early, by the store that could not be read; the next one goes on.",
		}, []string{"store"}),
	}
	m.pending = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tatara_ledger_alerts_pending_changes", Help: "Alerts that the last evaluation wanted changed and that did not: for a moment those that another replica changed first.",
	})
	m.unnameable = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tatara_ledger_alerts_unnameable_tasks", Help: "Tasks whose names hold NUL or are no UTF-8: they raise no alert.",
	})
	for _, store := range []string{"clickhouse", "postgres"} {
		m.failures.WithLabelValues(store)
	}
	reg.MustRegister(m.evaluated, m.duration, m.firing, m.transitions, m.failures, m.pending, m.unnameable)
	return m
}
