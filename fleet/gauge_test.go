package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// shows fails the test unless the registry has these samples of some metrics.
func shows(t *testing.T, reg *prometheus.Registry, want string, metrics ...string) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			for _, name := range metrics {
				if name == f.GetName() {
					fmt.Fprintf(&text, "%s{%s} %v\n", name, strings.Join(labels, ","), m.GetGauge().GetValue())
				}
			}
		}
	}
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Date(2026, 11, 30, 12, 0, 0, 500e6, time.UTC)
	e := usage.Event{Feed: usage.FeedCall, Time: at, Arrived: at.Add(time.Second), Labels: usage.Labels{Project: "demo"}}
	f.write(t, &usage.Facts{Samples: []usage.Sample{sample(t, "run", 1, at, output("k", "m", 1))}, Events: []usage.Event{e}})
	reg := prometheus.NewRegistry()
	away := false
	s := NewSources(func(ctx context.Context) ([]clickhouse.Source, error) {
		if away {
			return nil, errors.New("away")
		}
		return f.ledger.Sources(ctx)
	}, slog.New(slog.DiscardHandler), reg)
	names := []string{"tatara_ledger_source_last_heard_timestamp_seconds", "tatara_ledger_source_omitted"}
	shows(t, reg, "", names...)
	if err := s.update(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `tatara_ledger_source_last_heard_timestamp_seconds{feed="call",project="demo"} 1.7960400015e+09
tatara_ledger_source_last_heard_timestamp_seconds{feed="push",project="demo"} 1.7960400005e+09
tatara_ledger_source_omitted{} 0
`
	shows(t, reg, want, names...)
	away = true
	if err := s.update(t.Context()); err == nil {
		t.Error("no error")
	}
	shows(t, reg, want, names...)
}

// Prometheus' own linter likes the names and the help texts.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	reg, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	NewExporter(DefaultConfig(), nil, nil, log, reg)
	s := NewSources(func(context.Context) ([]clickhouse.Source, error) { return make([]clickhouse.Source, 1), nil }, log, reg)
	b := NewBudgets(1, nil, func(context.Context, time.Time) ([]clickhouse.ProjectCost, error) { return nil, nil }, log, reg)
	r := NewReadiness([]Check{{"a", func(context.Context) error { return nil }}}, log, reg)
	for _, g := range []*gauges{&s.gauges, &b.gauges, &r.gauges} {
		if err := g.update(t.Context()); err != nil {
			t.Error(err)
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestSourcesAreBounded(t *testing.T) {
	t.Parallel()
	var many []clickhouse.Source
	for i := range mostSources + 7 {
		many = append(many, clickhouse.Source{Feed: "call", Project: fmt.Sprint(i)})
	}
	reg := prometheus.NewRegistry()
	s := NewSources(func(context.Context) ([]clickhouse.Source, error) { return many, nil }, slog.New(slog.DiscardHandler), reg)
	if err := s.update(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows(t, reg, "tatara_ledger_source_omitted{} 7\n", "tatara_ledger_source_omitted")
	if n := testutil.CollectAndCount(s, "tatara_ledger_source_last_heard_timestamp_seconds"); n != mostSources {
		t.Errorf("%d sources", n)
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for i, spend := range []struct {
		at      time.Time
		project string
		n       uint64
	}{
		{now, "demo", 3}, {month(now), "demo", 4}, {month(now).Add(-time.Millisecond), "demo", 100}, {now, "other", 1}, {now, "third", 2},
	} {
		c := charge(fmt.Sprint(i), "run", spend.at, spend.n)
		c.Labels.Project = spend.project
		buckets := []time.Time{c.Bucket()}
		if err := f.ledger.OpenMarks(t.Context(), uint64(i), buckets); err != nil {
			t.Fatal(err)
		}
		f.derived(t, "run", spend.at, []usage.Charge{c}, nil)
	}
	reg := prometheus.NewRegistry()
	b := NewBudgets(50e9, map[string]usage.Nano{"demo": 10_500_000_000, "idle": 1e9}, f.ledger.CostSince, slog.New(slog.DiscardHandler), reg)
	if err := b.update(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows(t, reg, `tatara_ledger_budget_month_spent_usd{project=""} 10
tatara_ledger_budget_month_spent_usd{project="demo"} 7
tatara_ledger_budget_month_spent_usd{project="idle"} 0
tatara_ledger_budget_month_usd{project=""} 50
tatara_ledger_budget_month_usd{project="demo"} 10.5
tatara_ledger_budget_month_usd{project="idle"} 1
`, "tatara_ledger_budget_month_usd", "tatara_ledger_budget_month_spent_usd")
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	r := NewReadiness([]Check{
		{"clickhouse", func(context.Context) error { return nil }},
		{"postgres", func(context.Context) error { return errors.New("away") }},
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	}, slog.New(slog.DiscardHandler), reg)
	r.timeout = 10 * time.Millisecond
	stop := start(t, r.Run)
	until(t, "the checks to run", func() bool {
		return testutil.CollectAndCount(r, "tatara_ledger_ready") == 3 && testutil.CollectAndCount(r, "tatara_ledger_ready_duration_seconds") == 3
	})
	stop()
	shows(t, reg, `tatara_ledger_ready{check="clickhouse"} 1
tatara_ledger_ready{check="hangs"} 0
tatara_ledger_ready{check="postgres"} 0
`, "tatara_ledger_ready")
}
