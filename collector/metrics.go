package collector

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	facts     *prometheus.CounterVec
	batches   prometheus.Counter
	attempts  *prometheus.CounterVec
	duration  prometheus.Histogram
	stage     *prometheus.HistogramVec
	lag       prometheus.Histogram
	charges   *prometheus.CounterVec
	conflicts prometheus.Counter
	unpriced  prometheus.Counter
	stale     prometheus.Counter
	aside     *prometheus.CounterVec
	folded    *prometheus.CounterVec
}

type closerMetrics struct {
	closed *prometheus.CounterVec
	errs   prometheus.Counter
	dirty  prometheus.Gauge
}

// factory makes and registers metrics.
type factory struct{ reg prometheus.Registerer }

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "tatara_ledger_" + name, Help: help})
	f.reg.MustRegister(c)
	return c
}

func (f factory) counters(name, help, label string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tatara_ledger_" + name, Help: help}, []string{label})
	f.reg.MustRegister(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tatara_ledger_" + name, Help: help})
	f.reg.MustRegister(g)
	return g
}

func (f factory) histogram(name, help string, start float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "tatara_ledger_" + name, Help: help,
		Buckets: prometheus.ExponentialBuckets(start, 2, 15),
	})
	f.reg.MustRegister(h)
	return h
}

func (f factory) histograms(name, help, label string, start float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tatara_ledger_" + name, Help: help,
		Buckets: prometheus.ExponentialBuckets(start, 2, 15),
	}, []string{label})
	f.reg.MustRegister(h)
	return h
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := factory{reg}
	return &metrics{
		facts:     f.counters("writer_facts_total", "Facts written to the ledger, by type. A fact that was sent twice is written twice and counts once in the ledger.", "type"),
		batches:   f.counter("writer_batches_total", "Batches written to the ledger."),
		attempts:  f.counters("writer_attempts_total", "Attempts to write a batch, by result.", "result"),
		duration:  f.histogram("writer_batch_duration_seconds", "Time to write a batch, retries included.", 0.01),
		stage:     f.histograms("writer_stage_duration_seconds", "Time of one attempt's stages: storing facts, deriving, storing charges.", "stage", 0.005),
		lag:       f.histogram("writer_lag_seconds", "Age of the oldest fact of a batch when the batch became visible.", 0.05),
		charges:   f.counters("writer_charges_total", "Charges written, by change.", "change"),
		conflicts: f.counter("writer_conflicts_total", "Events dropped because their id had come with other content within the conflict window."),
		unpriced:  f.counter("writer_unpriced_tokens_total", "Tokens of written charges that no price was known for."),
		stale:     f.counter("writer_rederived_runs_total", "Runs derived again because a fact about them came in meanwhile."),
		folded:    f.counters("writer_folded_labels_total", "Labels of derived rows folded into \"other\" because the label has more values than its bound.", "label"),
		aside:     f.counters("writer_set_aside_records_total", "Journal records that the ledger refuses, set aside in a file, by reason.", "reason"),
	}
}

func newCloserMetrics(reg prometheus.Registerer) *closerMetrics {
	f := factory{reg}
	return &closerMetrics{
		closed: f.counters("closer_closed_total", "Buckets and hours summed into the rollup.", "grain"),
		errs:   f.counter("closer_errors_total", "Passes of the closer that failed."),
		dirty:  f.gauge("closer_dirty_buckets", "Buckets that are read from the charges because the rollup does not have them yet."),
	}
}
