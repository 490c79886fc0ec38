package tasks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Why everything is read.
const (
	atStart    = "start"
	afterGap   = "gap"        // ClickHouse was away so long that marks may be gone
	difference = "difference" // figures were not the ledger's
)

// What became of comparing all totals.
const (
	equal     = "equal"
	different = "different"
	failed    = "failed"
)

type metrics struct {
	timestamp   prometheus.Gauge
	tasks       prometheus.Gauge
	refresh     prometheus.Histogram
	failures    prometheus.Counter
	rebuilds    *prometheus.CounterVec
	reconciled  *prometheus.CounterVec
	differences prometheus.Counter
	dropped     prometheus.Counter
	returned    prometheus.Counter
}

// newMetrics registers the metrics; age is called when they are read.
func newMetrics(reg prometheus.Registerer, age func() time.Duration) *metrics {
	m := &metrics{
		timestamp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tatara_ledger_tasks_snapshot_timestamp_seconds",
			Help: "The moment by ClickHouse's clock up to which the totals of tasks are complete; 0 before they were first read.",
		}),
		tasks: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tatara_ledger_tasks",
			Help: "Tasks whose totals are in memory.",
		}),
		refresh: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tatara_ledger_tasks_refresh_duration_seconds",
			Help:    "Time to bring the totals of tasks up to date.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 17),
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_tasks_refresh_failures_total",
			Help: "Attempts to bring the totals of tasks up to date that failed. The totals stay as they were, and age.",
		}),
		rebuilds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_tasks_rebuilds_total",
			Help: "Times that the totals of all tasks were read anew, by reason: start, gap (marks may have been missed while ClickHouse was away), difference (they were not the ledger's).",
		}, []string{"reason"}),
		reconciled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_tasks_reconciliations_total",
			Help: "Comparisons of the totals in memory with those of the ledger, by result: equal, different (they were read anew), failed.",
		}, []string{"result"}),
		differences: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_tasks_differences_total",
			Help: "Tasks whose total in memory was not the ledger's. Always 0 unless there is a mistake in the service, or the ledger was changed by hand.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_tasks_dropped_total",
			Help: "Tasks dropped from memory because they are too many and have not spent for long. The ledger keeps them.",
		}),
		returned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_tasks_returned_total",
			Help: "Tasks that spent again after they had been dropped from memory, and were loaded by a query over all spend.",
		}),
	}
	for _, reason := range []string{atStart, afterGap, difference} {
		m.rebuilds.WithLabelValues(reason)
	}
	for _, result := range []string{equal, different, failed} {
		m.reconciled.WithLabelValues(result)
	}
	reg.MustRegister(m.timestamp, m.tasks, m.refresh, m.failures, m.rebuilds, m.reconciled, m.differences, m.dropped, m.returned,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tatara_ledger_tasks_snapshot_age_seconds",
			Help: "Age of the totals of tasks that ceilings are judged by; before they were first read, the time since the start.",
		}, func() float64 { return age().Seconds() }))
	return m
}
