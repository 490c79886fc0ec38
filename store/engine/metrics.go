package engine

import "github.com/prometheus/client_golang/prometheus"

var _ prometheus.Collector = (*Engines)(nil)

// Restarts returns how often a dead engine was started again, by engine.
func (e *Engines) Restarts() map[string]int64 {
	restarts := make(map[string]int64, len(e.children))
	for _, c := range e.children {
		restarts[c.name] = c.restarts.Load()
	}
	return restarts
}

func restartsDesc() *prometheus.Desc {
	return prometheus.NewDesc("tatara_ledger_engine_restarts_total",
		"Starts of an embedded engine after it died, successful or not.", []string{"engine"}, nil)
}

func upDesc() *prometheus.Desc {
	return prometheus.NewDesc("tatara_ledger_engine_up",
		"Whether the embedded engine runs and has answered since it was started.", []string{"engine"}, nil)
}

// Describe implements prometheus.Collector.
func (e *Engines) Describe(ch chan<- *prometheus.Desc) {
	ch <- restartsDesc()
	ch <- upDesc()
}

// Collect implements prometheus.Collector.
func (e *Engines) Collect(ch chan<- prometheus.Metric) {
	for _, c := range e.children {
		up := 0.0
		if c.up.Load() {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(restartsDesc(), prometheus.CounterValue, float64(c.restarts.Load()), c.name)
		ch <- prometheus.MustNewConstMetric(upDesc(), prometheus.GaugeValue, up, c.name)
	}
}
