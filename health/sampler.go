package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Config says how samples are taken. Start from [DefaultConfig].
type Config struct {
	// Instance names this replica in its samples. Default: the host's name.
	Instance string
	// Every is the time between two samples. Default 15 s. Too low: rows without
	// end; too high: panels of minutes are empty.
	Every time.Duration
	// Timeout bounds the storing of one sample. Default 10 s; less than Every.
	Timeout time.Duration
	// Most is how many series a sample has at most. Default 1000, several times
	// what the service has. Those beyond it are left out and counted.
	Most int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	host, err := os.Hostname()
	if err != nil {
		host = "" // Validate asks for a name
	}
	return Config{Instance: host, Every: 15 * time.Second, Timeout: 10 * time.Second, Most: 1000}
}

// Flags adds the flags.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Instance, "instance", c.Instance, "`name` of this replica in the samples of its health")
}

// Validate reports every mistake at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Instance == "" {
		errs = append(errs, errors.New("--instance must name this replica"))
	}
	if c.Timeout <= 0 || c.Timeout >= c.Every {
		errs = append(errs, errors.New("health: the timeout must be positive and less than the time between two samples"))
	}
	if c.Most < 1 {
		errs = append(errs, errors.New("health: a sample must have one series or more"))
	}
	return errors.Join(errs...)
}

// Ledger stores samples.
type Ledger interface {
	AppendHealth(ctx context.Context, samples []clickhouse.HealthSample) error
}

// Registry has the service's metrics.
type Registry interface {
	prometheus.Gatherer
	prometheus.Registerer
}

// Sampler takes samples of a registry. [Sampler.Run] must run once.
type Sampler struct {
	cfg     Config
	series  prometheus.Gatherer
	ledger  Ledger
	names   map[string]int // in their order
	log     *slog.Logger
	samples *prometheus.CounterVec
	omitted prometheus.Gauge

	stored map[string]stored // of counters, by series
}

// stored is the value of a counter that was stored last.
type stored struct {
	value float64
	at    time.Time
}

// restate is how often a counter that stands still is stored: most do nearly
// always, and a query pays for every row.
const restate = 5 * time.Minute

const (
	resultStored = "stored"
	resultFailed = "failed"
)

// New returns a sampler of [Names] of a registry, whose own metrics are
// registered there too.
func New(cfg Config, reg Registry, ledger Ledger, log *slog.Logger) *Sampler {
	s := &Sampler{
		cfg: cfg, series: reg, ledger: ledger, log: log.With("component", "health"),
		names: map[string]int{}, stored: map[string]stored{},
		samples: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_health_samples_total",
			Help: "Samples of the service's own series for the ledger, by what became of them: stored, or failed (they are dropped).",
		}, []string{"result"}),
		omitted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tatara_ledger_health_series_omitted",
			Help: "Series that the last sample lacks because it has too many.",
		}),
	}
	for i, name := range Names() {
		s.names[name] = i
	}
	for _, result := range []string{resultStored, resultFailed} {
		s.samples.WithLabelValues(result)
	}
	reg.MustRegister(s.samples, s.omitted)
	return s
}

// Run takes samples until ctx ends. It returns no error.
func (s *Sampler) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	failing := false
	for {
		err := s.sample(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			s.log.Warn("no samples of the service's health", "error", err)
		case err == nil && failing:
			s.log.Info("samples of the service's health again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sample takes one sample and stores it, or drops it.
func (s *Sampler) sample(ctx context.Context, now time.Time) error {
	families, broken := s.series.Gather() // what can be gathered comes beside the error
	if broken != nil {
		broken = fmt.Errorf("gathering the service's own series: %w", broken)
	}
	rows := s.rows(families, now.UTC().Truncate(time.Millisecond))
	rows, counters := s.rise(rows)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.ledger.AppendHealth(ctx, samplesOf(rows)); err != nil {
		s.samples.WithLabelValues(resultFailed).Inc()
		return errors.Join(fmt.Errorf("storing a sample: %w", err), broken)
	}
	s.samples.WithLabelValues(resultStored).Inc()
	maps.Copy(s.stored, counters)
	return broken
}

// row is a sample of one series.
type row struct {
	clickhouse.HealthSample
	key     string // of the series
	counter bool
	order   int
}

// rows are what is kept of families, in an order that does not change from
// sample to sample, so that it is always the same series that are left out.
func (s *Sampler) rows(families []*dto.MetricFamily, now time.Time) []row {
	var out []row
	for _, f := range families {
		order, known := s.names[f.GetName()]
		if !known {
			continue
		}
		only := kept(f.GetName())
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			key := ""
			for _, l := range m.GetLabel() { // in their order
				if only != nil && !slices.Contains(only, l.GetName()) {
					continue
				}
				labels[l.GetName()] = l.GetValue()
				key += "," + l.GetName() + "=" + strconv.Quote(l.GetValue())
			}
			add := func(name string, value float64, counter bool) {
				out = append(out, row{clickhouse.HealthSample{
					Time: now, Instance: s.cfg.Instance, Name: name, Labels: labels, Value: value,
				}, name + key, counter, order})
			}
			switch {
			case m.GetHistogram() != nil:
				add(f.GetName()+"_sum", m.GetHistogram().GetSampleSum(), true)
				add(f.GetName()+"_count", float64(m.GetHistogram().GetSampleCount()), true)
			case m.GetCounter() != nil:
				add(f.GetName(), m.GetCounter().GetValue(), true)
			case m.GetGauge() != nil:
				add(f.GetName(), m.GetGauge().GetValue(), false)
			}
		}
	}
	slices.SortFunc(out, func(a, b row) int { return cmp.Or(cmp.Compare(a.order, b.order), strings.Compare(a.key, b.key)) })
	out = addUp(out)
	over := max(len(out)-s.cfg.Most, 0)
	s.omitted.Set(float64(over))
	return out[:len(out)-over]
}

// addUp makes one row of those that follow each other and have the same key.
func addUp(rows []row) []row {
	out := rows[:0]
	for _, r := range rows {
		if n := len(out); n > 0 && out[n-1].key == r.key {
			out[n-1].Value += r.Value
			continue
		}
		out = append(out, r)
	}
	return out
}

// rise sets how much counters rose since they were stored last, leaves those out
// that need not be stored now, and returns the values of the others. Counters
// begin at 0 with the process, so that the rises of an instance add up to all
// that it had counted when it last stored a sample, whatever samples before are
// missing.
func (s *Sampler) rise(rows []row) ([]row, map[string]stored) {
	out, counters := rows[:0], map[string]stored{}
	for _, r := range rows {
		if r.counter {
			before, known := s.stored[r.key]
			if known && r.Value == before.value && r.Time.Sub(before.at) < restate {
				continue
			}
			by := r.Value
			if before.value <= by {
				by -= before.value
			}
			r.Increase = &by
			counters[r.key] = stored{r.Value, r.Time}
		}
		out = append(out, r)
	}
	return out, counters
}

func samplesOf(rows []row) []clickhouse.HealthSample {
	out := make([]clickhouse.HealthSample, len(rows))
	for i := range rows {
		out[i] = rows[i].HealthSample
	}
	return out
}
