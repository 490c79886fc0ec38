package receive

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	facts    *prometheus.CounterVec
	rejected *prometheus.CounterVec
	ignored  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tatara_ledger_receive_" + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	return &metrics{
		facts:    vec("facts_total", "Facts acknowledged, by feed.", "feed"),
		rejected: vec("rejected_total", "Requests and calls refused, by feed and reason.", "feed", "reason"),
		ignored:  vec("ignored_series_total", "Pushed series of the wrapper that the ledger does not keep, by reason.", "reason"),
	}
}
