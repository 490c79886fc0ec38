package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// The holder of a fleet of 20 000 runs of the last weeks, of which 500 push on:
// reading all of it for the first time, and reading what is new.
func BenchmarkRefresh(b *testing.B) {
	const runs, running, charges = 20_000, 500, 40
	f := newFixture(b)
	ctx := b.Context()
	now := time.Now().UTC().Truncate(time.Millisecond)
	push := func(run int, first time.Time, n, of int) (out []usage.Charge) {
		for i := range n {
			c := charge(fmt.Sprint(run, "/", of+i), fmt.Sprint("run-", run), first.Add(time.Duration(of+i)*time.Minute), uint64(1000+i))
			c.Labels.Kind = fmt.Sprint("kind-", run%8)
			c.Labels.Repo = fmt.Sprint("acme/repo-", run%20)
			c.Labels.Model = fmt.Sprint("model-", run%3)
			out = append(out, c)
		}
		return out
	}
	first := func(run int) time.Time { return now.Add(-time.Hour - time.Duration(run)*2*time.Minute) } // four weeks
	derive := func(from, to, n, of int, version uint64) {
		d := clickhouse.Derived{Version: version}
		for run := from; run < to; run++ {
			d.Charges = append(d.Charges, push(run, first(run), n, of)...)
			d.Summaries = append(d.Summaries, usage.RunSummary{Run: fmt.Sprint("run-", run), FirstSeen: first(run), LastSeen: first(run).Add(time.Duration(n+of) * time.Minute)})
		}
		if err := f.ledger.AppendDerived(ctx, &d); err != nil {
			b.Fatal(err)
		}
	}
	clock, err := f.ledger.Clock(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < runs; from += 1000 {
		derive(from, from+1000, charges, 0, clock-uint64(time.Hour))
	}
	cfg := DefaultConfig()
	session, err := f.state.OpenFleetSession(ctx, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	epoch := int64(0)
	newReader := func(b *testing.B) *reader {
		e, ok, err := session.Lead(ctx)
		if !ok || err != nil {
			b.Fatal(ok, err)
		}
		epoch = e
		return &reader{Exporter: newExporter(cfg, f.ledger, f.state), epoch: epoch}
	}
	refresh := func(b *testing.B, r *reader) {
		if err := r.refresh(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.admin.Exec(ctx, `TRUNCATE fleet_runs, fleet_series`); err != nil {
				b.Fatal(err)
			}
			if _, err := f.admin.Exec(ctx, `UPDATE fleet_holder SET watermark = NULL`); err != nil {
				b.Fatal(err)
			}
			refresh(b, newReader(b))
		}
	})
	b.Run("compare", func(b *testing.B) { // everything, when all of it is known
		r := newReader(b)
		for b.Loop() {
			r.watermark, r.clock, r.loaded = 0, 0, true
			refresh(b, r)
		}
	})
	b.Run("running", func(b *testing.B) { // half a thousand runs pushed since
		r := newReader(b)
		refresh(b, r)
		of := charges
		for b.Loop() {
			b.StopTimer()
			v, err := f.ledger.Clock(ctx)
			if err != nil {
				b.Fatal(err)
			}
			derive(0, running, 1, of, v)
			of++
			b.StartTimer()
			refresh(b, r)
		}
	})
	b.Run("scrape", func(b *testing.B) {
		newReader(b)
		n := 0
		for b.Loop() {
			series, err := f.state.ShowFleet(ctx, epoch, true)
			if err != nil {
				b.Fatal(err)
			}
			n = len(series)
		}
		b.ReportMetric(float64(n), "series")
	})
}
