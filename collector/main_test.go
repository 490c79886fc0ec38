package collector

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, clickhouse.Published())
	os.Exit(engines.Run(m))
}

func newLedger(t testing.TB) *clickhouse.Store {
	t.Helper()
	a := engines.ClickHouse(t)
	s, err := clickhouse.Open(clickhouse.Config{
		Addresses: []string{a.Addr}, Database: engines.Database(t), User: a.User, Password: a.Password.Reveal(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func newDeriver(t testing.TB) *derive.Deriver {
	t.Helper()
	book, err := pricing.LoadFile("")
	if err != nil {
		t.Fatal(err)
	}
	return derive.New(book, nil)
}

func newWriter(t testing.TB, ledger Ledger) *Writer {
	t.Helper()
	codec, err := NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.RetryMax = 10 * time.Millisecond
	return NewWriter(cfg, nil, codec, ledger, newDeriver(t), NewAside(t.TempDir()), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// write writes facts as one batch.
func write(t testing.TB, w *Writer, f *usage.Facts) {
	t.Helper()
	if err := w.retry(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// verified fails the test unless the ledger is what its facts say.
func verified(t testing.TB, s *clickhouse.Store) {
	t.Helper()
	v := NewVerifier(s, newDeriver(t), DefaultConfig().ConflictWindow, func(int, int) {})
	v.settle = 0
	out, err := v.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range out.Differences {
		if i == 5 {
			t.Errorf("and %d more", len(out.Differences)-i)
			break
		}
		t.Errorf("%+v", d)
	}
}

// spend is the cost per value of a dimension.
func spend(t testing.TB, s *clickhouse.Store, by string) map[string]usage.Nano {
	t.Helper()
	rows, err := s.Spend(t.Context(), clickhouse.SpendQuery{By: []string{by}, From: noon.Add(-20 * 365 * 24 * time.Hour), To: noon.Add(1000 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]usage.Nano{}
	for _, r := range rows {
		out[r.Keys[0]] = r.Cost.Nano
	}
	return out
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// call is a call of one million output tokens on Haiku 4.5: five dollars.
func call(id string, t time.Time, l usage.Labels) usage.Event {
	if l.Model == "" {
		l.Model = "claude-haiku-4-5"
	}
	e := usage.Event{Feed: usage.FeedCall, SourceID: id, Time: t, Arrived: noon, Labels: l, Tokens: usage.Tokens{Output: 1_000_000}}
	e.Content = usage.Hash("content", id, t.String(), l.Kind, l.Task, l.Run, l.Session, l.Model, l.Project)
	e.ID = e.Content
	if id != "" {
		e.ID = usage.Hash("call", id)
	}
	return e
}

const five = usage.Nano(5_000_000_000)

// push is a snapshot of a process with n million output tokens of a model.
func push(t testing.TB, run string, pushes uint64, arrived time.Time, millions map[string]uint64) usage.Sample {
	t.Helper()
	var c usage.Counters
	for model, n := range millions {
		c.Tokens = append(c.Tokens, usage.TokenCounter{
			Labels: usage.SampleLabels{Kind: "implement", Project: "demo", Model: model}, Output: n * 1_000_000,
		})
	}
	s, err := usage.NewSample(run, run, arrived, pushes, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var errInjected = errors.New("injected fault")

// faultyLedger fails its nth call, before the call runs or after it has.
type faultyLedger struct {
	*clickhouse.Store
	left  atomic.Int64
	after bool
}

func (f *faultyLedger) fail(run func() error) error {
	if f.left.Add(-1) != 0 {
		return run()
	}
	if f.after {
		return errors.Join(run(), errInjected)
	}
	return errInjected
}

func (f *faultyLedger) AppendFacts(ctx context.Context, batch uint64, x *usage.Facts) error {
	return f.fail(func() error { return f.Store.AppendFacts(ctx, batch, x) })
}

func (f *faultyLedger) Clock(ctx context.Context) (v uint64, err error) {
	err = f.fail(func() error { v, err = f.Store.Clock(ctx); return err })
	return v, err
}

func (f *faultyLedger) Links(ctx context.Context, runs, sessions []string) (out []usage.Link, err error) {
	err = f.fail(func() error { out, err = f.Store.Links(ctx, runs, sessions); return err })
	return out, err
}

func (f *faultyLedger) SampleHeads(ctx context.Context, runs []string) (out []usage.Sample, err error) {
	err = f.fail(func() error { out, err = f.Store.SampleHeads(ctx, runs); return err })
	return out, err
}

func (f *faultyLedger) OpenMarks(ctx context.Context, id uint64, buckets []time.Time) error {
	return f.fail(func() error { return f.Store.OpenMarks(ctx, id, buckets) })
}

func (f *faultyLedger) AppendDerived(ctx context.Context, d *clickhouse.Derived) error {
	return f.fail(func() error { return f.Store.AppendDerived(ctx, d) })
}

func (f *faultyLedger) CompleteMarks(ctx context.Context, id uint64, b []time.Time, took time.Duration, fresh uint64) error {
	return f.fail(func() error { return f.Store.CompleteMarks(ctx, id, b, took, fresh) })
}

func (f *faultyLedger) Fingerprints(ctx context.Context, runs, sessions []string) (out map[string]uint64, err error) {
	err = f.fail(func() error { out, err = f.Store.Fingerprints(ctx, runs, sessions); return err })
	return out, err
}
