package deliver

import "github.com/prometheus/client_golang/prometheus"

// Why an alert was dropped.
const (
	reasonFull    = "queue_full" // the queue was full of other alerts, and this the oldest
	reasonRefused = "refused"    // the Alertmanager finds this very alert invalid
	reasonStopped = "stopped"    // the service stopped before it was taken
)

type metrics struct {
	failures  *prometheus.CounterVec
	delivered *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	length    *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_alerts_delivery_failures_total", Help: "Requests with alerts that a receiver did not take.",
		}, []string{"receiver"}),
		delivered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_alerts_delivered_total", Help: "Alerts that a receiver took, repetitions included.",
		}, []string{"receiver"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_alerts_dropped_total", Help: "Alerts that were given up before an Alertmanager took them, by reason.",
		}, []string{"receiver", "reason"}),
		length: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tatara_ledger_alerts_queue_length", Help: "Alerts that wait for an Alertmanager.",
		}, []string{"receiver"}),
	}
	reg.MustRegister(m.failures, m.delivered, m.dropped, m.length)
	return m
}

// receiverMetrics are the series of one receiver. They exist from the start, so
// that the first failure is a rise.
type receiverMetrics struct {
	failures, delivered    prometheus.Counter
	full, refused, stopped prometheus.Counter
	length                 prometheus.Gauge
}

func (m *metrics) alertmanager(name string) receiverMetrics {
	r := m.webhook(name)
	r.full = m.dropped.WithLabelValues(name, reasonFull)
	r.stopped = m.dropped.WithLabelValues(name, reasonStopped)
	r.length = m.length.WithLabelValues(name)
	return r
}

// webhook has no queue that could be full.
func (m *metrics) webhook(name string) receiverMetrics {
	return receiverMetrics{
		failures: m.failures.WithLabelValues(name), delivered: m.delivered.WithLabelValues(name),
		refused: m.dropped.WithLabelValues(name, reasonRefused),
	}
}
