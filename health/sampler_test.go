package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, clickhouse.Published())
	os.Exit(engines.Run(m))
}

// replica is a service with a few of the metrics that are kept, and others.
type replica struct {
	*Sampler
	reg     *prometheus.Registry
	facts   *prometheus.CounterVec
	bytes   prometheus.Gauge
	append  prometheus.Histogram
	foreign prometheus.Counter
}

func newReplica(cfg Config, ledger Ledger) *replica {
	r := &replica{
		reg:     prometheus.NewRegistry(),
		facts:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tatara_ledger_receive_facts_total", Help: "Help."}, []string{"feed"}),
		bytes:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "tatara_ledger_journal_bytes", Help: "Help."}),
		append:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tatara_ledger_journal_append_duration_seconds", Help: "Help."}),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{Name: "tatara_ledger_api_panics_total", Help: "Help."}),
	}
	r.reg.MustRegister(r.facts, r.bytes, r.append, r.foreign)
	r.Sampler = New(cfg, r.reg, ledger, slog.New(slog.DiscardHandler))
	return r
}

func config(instance string) Config {
	cfg := DefaultConfig()
	cfg.Instance = instance
	return cfg
}

// away is a ledger that can be away.
type away struct {
	Ledger
	is bool
}

func (a *away) AppendHealth(ctx context.Context, samples []clickhouse.HealthSample) error {
	if a.is {
		return errors.New("away")
	}
	return a.Ledger.AppendHealth(ctx, samples)
}

// What is kept comes out of the view as it was gathered, and the rises of
// counters add up, over samples that failed and over processes.
func TestSamples(t *testing.T) {
	t.Parallel()
	store, query := newStore(t)
	ledger := &away{Ledger: store}
	start := time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * 15 * time.Second) }
	take := func(r *replica, n int, fails bool) {
		t.Helper()
		ledger.is = fails
		if err := r.sample(t.Context(), at(n)); (err != nil) != fails {
			t.Fatal(err)
		}
	}

	a := newReplica(config("a"), ledger)
	strange := "it's\\ \"x\" <b> 🙂\n"
	a.facts.WithLabelValues("call").Add(3)
	a.facts.WithLabelValues(strange).Add(1)
	a.bytes.Set(1.5)
	a.append.Observe(0.25)
	take(a, 0, false)
	a.facts.WithLabelValues("call").Add(4)
	take(a, 1, true)
	a.facts.WithLabelValues("call").Add(5)
	a.bytes.Set(0.5)
	a.append.Observe(0.5)
	take(a, 2, false)
	b := newReplica(config("a"), ledger) // the process begins anew
	b.facts.WithLabelValues("call").Add(2)
	take(b, 3, false)

	const labels = `arrayStringConcat(arrayMap((k, v) -> k || '=' || v, mapKeys(labels), mapValues(labels)), ',')`
	got := query(`SELECT concatWithSeparator(' ', toString(time), instance, name, ` + labels + `, toString(value), ifNull(toString(increase), 'gauge'))
		FROM health WHERE name NOT LIKE '%health%' AND NOT has(mapValues(labels), 'x') ORDER BY name, ` + labels + `, time`)
	const facts, appends = "tatara_ledger_receive_facts_total", "tatara_ledger_journal_append_duration_seconds"
	want := []string{
		"2026-11-30 12:00:00.123 a " + appends + "_count  1 1", "2026-11-30 12:00:30.123 a " + appends + "_count  2 1", "2026-11-30 12:00:45.123 a " + appends + "_count  0 0",
		"2026-11-30 12:00:00.123 a " + appends + "_sum  0.25 0.25", "2026-11-30 12:00:30.123 a " + appends + "_sum  0.75 0.5", "2026-11-30 12:00:45.123 a " + appends + "_sum  0 0",
		"2026-11-30 12:00:00.123 a tatara_ledger_journal_bytes  1.5 gauge", "2026-11-30 12:00:30.123 a tatara_ledger_journal_bytes  0.5 gauge", "2026-11-30 12:00:45.123 a tatara_ledger_journal_bytes  0 gauge",
		"2026-11-30 12:00:00.123 a " + facts + " feed=call 3 3", "2026-11-30 12:00:30.123 a " + facts + " feed=call 12 9", "2026-11-30 12:00:45.123 a " + facts + " feed=call 2 2",
		"2026-11-30 12:00:00.123 a " + facts + " feed=" + strange + " 1 1", // it stands still
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := testutil.ToFloat64(a.samples.WithLabelValues(resultFailed)); n != 1 {
		t.Errorf("%v samples failed", n)
	}
	if n := testutil.ToFloat64(a.samples.WithLabelValues(resultStored)); n != 2 {
		t.Errorf("%v samples stored", n)
	}
}

// A counter that stands still is stored every five minutes, and at once when it
// rises.
func TestCountersThatStandStill(t *testing.T) {
	t.Parallel()
	var increases []float64
	r := newReplica(config("a"), ledgerFunc(func(samples []clickhouse.HealthSample) error {
		for _, s := range samples {
			if s.Name == "tatara_ledger_receive_facts_total" {
				increases = append(increases, *s.Increase)
			}
		}
		return nil
	}))
	facts, now := r.facts.WithLabelValues("call"), time.Now()
	facts.Add(2)
	for i := range 2*20 + 3 { // of 15 s
		if i == 42 {
			facts.Inc()
		}
		if err := r.sample(t.Context(), now.Add(time.Duration(i)*15*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]float64{2, 0, 0, 1}, increases); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A sample is bounded; it is always the same series that it lacks.
func TestSamplesAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config("a")
	cfg.Most = 20
	var stored []clickhouse.HealthSample
	r := newReplica(cfg, ledgerFunc(func(samples []clickhouse.HealthSample) error {
		stored = samples
		return nil
	}))
	for i := range 30 {
		r.facts.WithLabelValues(fmt.Sprintf("%02d", i)).Inc()
	}
	for i := range 2 {
		if err := r.sample(t.Context(), time.Now().Add(time.Duration(i)*restate)); err != nil {
			t.Fatal(err)
		}
		var feeds []string
		for _, s := range stored {
			feeds = append(feeds, s.Labels["feed"])
		}
		if want := "00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19"; strings.Join(feeds, " ") != want {
			t.Errorf("kept %v", feeds)
		}
		// 10 of these, one gauge, a histogram, and three series of the sampler.
		if n := testutil.ToFloat64(r.omitted); n != 10+1+2+3 {
			t.Errorf("%v omitted", n)
		}
	}
}

// What cannot be gathered spoils nothing else.
func TestSampleOfABrokenRegistry(t *testing.T) {
	t.Parallel()
	var stored int
	r := newReplica(config("a"), ledgerFunc(func(samples []clickhouse.HealthSample) error {
		stored = len(samples)
		return nil
	}))
	r.reg.MustRegister(broken{})
	if err := r.sample(t.Context(), time.Now()); err == nil || stored == 0 {
		t.Errorf("%d series stored, %v", stored, err)
	}
}

type broken struct{}

func (broken) Describe(ch chan<- *prometheus.Desc) {
	ch <- prometheus.NewDesc("broken", "Breaks.", nil, nil)
}

func (broken) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Breaks.", nil, nil), errors.New("broken"))
}

func TestRunSamplesUntilTheEnd(t *testing.T) {
	t.Parallel()
	cfg := config("a")
	cfg.Every, cfg.Timeout = 2*time.Millisecond, time.Millisecond
	taken := make(chan struct{})
	r := newReplica(cfg, ledgerFunc(func([]clickhouse.HealthSample) error {
		taken <- struct{}{}
		return errors.New("away")
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	for range 3 { // it goes on after a failure
		<-taken
	}
	cancel()
	for {
		select {
		case <-taken:
			continue
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		}
		return
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	cfg = Config{Every: time.Second, Timeout: time.Second}
	if err := cfg.Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three mistakes: %v", err)
	}
}

// Prometheus' own linter likes the names and the help texts.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	New(config("a"), reg, nil, slog.New(slog.DiscardHandler))
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// Of requests only the route is kept: what differs in the rest is added up.
func TestRoutesAreAddedUp(t *testing.T) {
	t.Parallel()
	got := map[string]float64{}
	r := newReplica(config("a"), ledgerFunc(func(samples []clickhouse.HealthSample) error {
		for _, s := range samples {
			if route, ok := s.Labels["route"]; ok {
				if len(s.Labels) != 1 || s.Value != *s.Increase {
					t.Errorf("%+v", s)
				}
				got[route+strings.TrimPrefix(s.Name, "tatara_ledger_api_request_duration_seconds")] += s.Value
			}
		}
		return nil
	}))
	requests := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tatara_ledger_api_request_duration_seconds", Help: "Help."}, []string{"code", "method", "route"})
	r.reg.MustRegister(requests)
	for i, labels := range [][]string{{"200", "GET", "/a"}, {"404", "GET", "/a"}, {"200", "GET", "/b"}, {"200", "HEAD", "/a"}} {
		requests.WithLabelValues(labels...).Observe(float64(int(1) << i))
	}
	if err := r.sample(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"/a_sum": 1 + 2 + 8, "/a_count": 3, "/b_sum": 4, "/b_count": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type ledgerFunc func([]clickhouse.HealthSample) error

func (f ledgerFunc) AppendHealth(_ context.Context, samples []clickhouse.HealthSample) error {
	return f(samples)
}

// newStore is a migrated store, and what reads rows of one column from it.
func newStore(t *testing.T) (*clickhouse.Store, func(sql string) []string) {
	t.Helper()
	a, database := engines.ClickHouse(t), engines.Database(t)
	s, err := clickhouse.Open(clickhouse.Config{Addresses: []string{a.Addr}, Database: database, User: a.User, Password: a.Password.Reveal()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := driver.Open(&driver.Options{
		Protocol: driver.HTTP, Addr: []string{a.Addr}, Auth: driver.Auth{Database: database, Username: a.User, Password: a.Password.Reveal()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, func(sql string) (out []string) {
		rows, err := conn.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			out = append(out, line)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
		return out
	}
}
