package journal

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	appendDuration  prometheus.Histogram
	fsyncDuration   prometheus.Histogram
	groupRecords    prometheus.Histogram
	full            prometheus.Counter
	repaired        prometheus.Counter
	corruptSegments prometheus.Counter
	lostRecords     prometheus.Counter
	diskErrors      *prometheus.CounterVec
}

// prefix begins the name of every metric.
const prefix = "tatara_ledger_journal_"

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
	}
	// From 0.1 ms (a fast disk's fsync) to 3.3 s (longer than any client waits).
	seconds := prometheus.ExponentialBuckets(0.0001, 2, 16)
	m := &metrics{
		appendDuration: histogram("append_duration_seconds",
			"Time from the call of an append to its acknowledgement, waiting for room included.", seconds),
		fsyncDuration: histogram("fsync_duration_seconds", "Duration of one fsync of a segment.", seconds),
		groupRecords: histogram("group_records",
			"Records that one fsync made durable.", prometheus.ExponentialBuckets(1, 4, 8)),
		full:     counter("full_total", "Appends refused because the journal had no room in time."),
		repaired: counter("repaired_total", "Torn tails cut at start."),
		corruptSegments: counter("corrupt_segments_total",
			"Segments found damaged and set aside; their bytes are kept."),
		lostRecords: counter("lost_records_total",
			"Acknowledged records that could not be read because of damage."),
		diskErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "disk_errors_total", Help: "Failed disk operations by operation.",
		}, []string{"operation"}),
	}
	for _, op := range []string{opCreate, opWrite, opSync, opRead, opRelease} {
		m.diskErrors.WithLabelValues(op) // visible as zero from the start
	}
	return m
}

// register makes the metrics visible; stats is called at each scrape.
func (m *metrics) register(reg prometheus.Registerer, stats func() Stats) error {
	gauge := func(name, help string, value func(Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help},
			func() float64 { return value(stats()) })
	}
	collectors := []prometheus.Collector{
		m.appendDuration, m.fsyncDuration, m.groupRecords, m.full, m.repaired,
		m.corruptSegments, m.lostRecords, m.diskErrors,
		gauge("bytes", "Bytes of segments on disk that are not drained.",
			func(s Stats) float64 { return float64(s.Bytes) }),
		gauge("capacity_bytes", "Bytes at which appends are refused.",
			func(s Stats) float64 { return float64(s.CapacityBytes) }),
		gauge("pending_records", "Acknowledged records that are not committed.",
			func(s Stats) float64 { return float64(s.PendingRecords) }),
		gauge("oldest_record_age_seconds", "Age of the oldest record that is not committed, 0 if there is none.",
			func(s Stats) float64 { return s.OldestAge.Seconds() }),
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("registering a journal metric: %w", err)
		}
	}
	return nil
}

// Values of the label operation.
const (
	opCreate  = "create"
	opWrite   = "write"
	opSync    = "sync"
	opRead    = "read"
	opRelease = "release"
)
