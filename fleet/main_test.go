package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/szymonrychu/tatara-ledger/collector"
	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, clickhouse.Published())
	os.Exit(engines.Run(m))
}

// fixture is a ledger and a state of a test's own.
type fixture struct {
	ledger  *clickhouse.Store
	address string // of Postgres
	admin   *pgx.Conn
	state   *postgres.Store
	write   func(t testing.TB, f *usage.Facts)
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	a := engines.ClickHouse(t)
	ledger, err := clickhouse.Open(clickhouse.Config{Addresses: []string{a.Addr}, Database: engines.Database(t), User: a.User, Password: a.Password.Reveal()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := ledger.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := &fixture{ledger: ledger, address: engines.Postgres(t)}
	f.state = f.pool(t)
	if _, err := f.state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.admin, err = pgx.Connect(t.Context(), f.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.admin.Close(context.Background()) })
	f.write = newWriter(t, ledger)
	return f
}

// pool is what one replica has of Postgres.
func (f *fixture) pool(t testing.TB) *postgres.Store {
	t.Helper()
	cfg := postgres.DefaultConfig()
	cfg.URL = f.address + "&synchronous_commit=off"
	s, err := postgres.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// batches is a journal of one batch at a time.
type batches struct {
	in   chan journal.Batch
	done chan struct{}
}

func (b *batches) Next(ctx context.Context) (journal.Batch, error) {
	select {
	case <-ctx.Done():
		return journal.Batch{}, ctx.Err()
	case batch := <-b.in:
		return batch, nil
	}
}

func (b *batches) Commit(journal.Position) error {
	b.done <- struct{}{}
	return nil
}

// newWriter returns what writes facts and all that follows from them.
func newWriter(t testing.TB, ledger *clickhouse.Store) func(testing.TB, *usage.Facts) {
	t.Helper()
	codec, err := collector.NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	book, err := pricing.LoadFile("")
	if err != nil {
		t.Fatal(err)
	}
	cfg := collector.DefaultConfig()
	cfg.Linger = time.Millisecond
	source := &batches{make(chan journal.Batch), make(chan struct{})}
	w := collector.NewWriter(cfg, source, codec, ledger, derive.New(book, nil), collector.NewAside(t.TempDir()), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	start(t, w.Run)
	return func(t testing.TB, f *usage.Facts) {
		t.Helper()
		raw, err := codec.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		source.in <- journal.Batch{Records: [][]byte{raw}, Oldest: time.Now()}
		<-source.done
	}
}

// start runs something until the test, or the caller of stop, ends it.
func start(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// quick is a configuration for tests; a lease is long enough for a busy machine.
func quick() Config {
	c := DefaultConfig()
	c.Refresh, c.Sweep = 20*time.Millisecond, 20*time.Millisecond
	c.Ping, c.Lease, c.Silence = 20*time.Millisecond, time.Second, 30*time.Second
	c.Hold = 0                      // but where it is tested
	c.Recent = 365 * 24 * time.Hour // times of tests are made up
	return c
}

func newExporter(cfg Config, ledger Ledger, state State) *Exporter {
	return NewExporter(cfg, ledger, state, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// exporter is a replica with a pool of its own. stop ends it.
func (f *fixture) exporter(t testing.TB, cfg Config) (e *Exporter, stop func()) {
	t.Helper()
	e = newExporter(cfg, f.ledger, f.pool(t))
	return e, start(t, e.Run)
}

// scrape is what Prometheus sees: values by series, without the label source.
func scrape(t testing.TB, h http.Handler) map[string]float64 {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics/fleet", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("%d: %s", rec.Code, rec.Body)
	}
	return parse(t, rec.Body.String())
}

func parse(t testing.TB, body string) map[string]float64 {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			l := map[string]string{}
			for _, pair := range m.GetLabel() {
				l[pair.GetName()] = pair.GetValue()
			}
			if l["source"] != "tatara-ledger" {
				t.Errorf("the source is %q", l["source"])
			}
			if family.GetType() != dto.MetricType_COUNTER {
				t.Errorf("%s is a %s", name, family.GetType())
			}
			key := fmt.Sprintf("cost %s/%s/%s", l["project"], l["repo"], l["kind"])
			if name == "ccw_turn_tokens_total" {
				key = fmt.Sprintf("%s %s/%s/%s %s", l["type"], l["project"], l["repo"], l["kind"], l["model"])
			}
			out[key] = m.GetCounter().GetValue()
		}
	}
	return out
}

// pushed is what the scrapes should come to if no label changed: the charges of
// the pushes, one by one.
func (f *fixture) pushed(t testing.TB) map[string]float64 {
	t.Helper()
	charges, err := f.ledger.ChargesBetween(t.Context(), time.Unix(0, 0), time.Now().Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	nano, out := map[string]usage.Nano{}, map[string]float64{}
	for i := range charges {
		c := &charges[i]
		if c.Feed != usage.FeedPush {
			continue
		}
		l := fmt.Sprintf("%s/%s/%s", c.Labels.Project, c.Labels.Repo, c.Labels.Kind)
		nano["cost "+l] += c.Cost.Nano
		for class, n := range map[string]uint64{"input": c.Tokens.Input, "output": c.Tokens.Output, "cache_read": c.Tokens.CacheRead, "cache_creation": c.Tokens.CacheWrite} {
			if n > 0 {
				out[class+" "+l+" "+c.Labels.Model] += float64(n)
			}
		}
	}
	for k, n := range nano {
		if n > 0 {
			out[k] = float64(n) / 1e9
		}
	}
	return out
}

// until waits for something to become true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 6000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s did not happen", what)
}

// ready waits until a replica exposes, and returns what it exposes first.
func ready(t testing.TB, h http.Handler) (first map[string]float64) {
	t.Helper()
	until(t, "an exposition", func() bool {
		first = scrape(t, h)
		return len(first) > 0
	})
	return first
}

// sample is a push of a run with the given output tokens by kind and model.
func sample(t testing.TB, run string, pushes uint64, arrived time.Time, tokens ...usage.TokenCounter) usage.Sample {
	t.Helper()
	s, err := usage.NewSample(run, run, arrived, pushes, usage.Counters{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func output(kind, name string, n uint64) usage.TokenCounter {
	return usage.TokenCounter{Labels: usage.SampleLabels{Project: "demo", Kind: kind, Model: name}, Output: n}
}
