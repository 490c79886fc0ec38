package evaluate

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/alerts/deliver"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

// still is stores and receivers that cost nothing: what is measured is the
// evaluator.
type still struct {
	snapshot *tasks.Snapshot
	alerts   []store.Alert
}

func (s *still) Snapshot() *tasks.Snapshot { return s.snapshot }

func (s *still) Next(ctx context.Context, _ *tasks.Snapshot) (*tasks.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *still) Lookup(context.Context, string) (tasks.Task, bool, error) {
	return tasks.Task{}, false, nil
}

func (s *still) AlertView(context.Context, time.Time, time.Duration) (store.AlertView, error) {
	return store.AlertView{At: noon, Alerts: s.alerts}, nil
}

func (*still) JudgeBy(context.Context, string, bool) error { return nil }

// ChangeAlerts forgets what fires, so that the next evaluation finds it anew.
func (s *still) ChangeAlerts(context.Context, []store.AlertChange, time.Duration, bool) ([]store.Alert, error) {
	return nil, nil
}

func (s *still) Send(...deliver.Alert) {}

func (s *still) Recovered() <-chan struct{} { return nil }

func (s *still) Webhook() *deliver.Webhook { return nil }

const live = 100_000

// taskNumber is a task of a fleet, which spends as most do: far below its
// ceilings.
func taskNumber(i int, share float64) tasks.Task {
	t := spent(func(t *tasks.Task) {
		t.Name = fmt.Sprint("acme/widgets#", i)
		t.Kind, t.Model = []string{"implement", "review", "refine"}[i%3], "claude-opus-5"
		t.Total.Cost, t.Hour.Cost = dollars(25*share), dollars(10*share)
		t.Total.Tokens, t.Hour.Tokens = uint64(200e6*share), uint64(80e6*share)
		t.Total.OutputTokens, t.Hour.OutputTokens = uint64(2e6*share), uint64(8e5*share)
		t.Runs, t.HourRuns, t.Subagents = 1, 1, 3
		t.Models = []tasks.Model{{Name: t.Model, Cost: t.Total.Cost.Nano, Tokens: t.Total.Tokens}}
	})
	return t
}

func fleetOf(n int, share float64) []tasks.Task {
	out := make([]tasks.Task, n)
	for i := range out {
		out[i] = taskNumber(i, share)
	}
	return out
}

// BenchmarkEvaluate is one evaluation of 100 000 live tasks under the shipped
// ceilings, without the stores: of all of them, as at a start, with and without
// crossings, and of those that changed, as every second. Pass reads every task
// once and does nothing.
func BenchmarkEvaluate(b *testing.B) {
	shipped, err := ceiling.LoadFile("")
	if err != nil {
		b.Fatal(err)
	}
	calm := tasks.SnapshotOf(noon, fleetOf(live, 0.2)...)
	b.Run("pass", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			runs := uint64(0)
			for t := range calm.All() {
				runs += t.Runs
			}
			if runs != live {
				b.Fatal(runs)
			}
		}
	})
	for name, c := range map[string]struct {
		judged, snapshot *tasks.Snapshot
		firing           int
	}{
		"all":           {nil, calm, 0},
		"all,1000cross": {nil, calm.With(noon, fleetOf(1000, 0.9)...), 0},
		"1000changed":   {calm, calm.With(noon, fleetOf(1000, 0.3)...), 0},
		"1000firing":    {calm, calm, 1000},
	} {
		b.Run(name, func(b *testing.B) {
			s := &still{}
			for i := range c.firing {
				task := taskNumber(i, 0)
				s.alerts = append(s.alerts, store.Alert{
					AlertID:    store.AlertID{Task: task.Name, Alert: ceiling.TaskCost.Alert(), Threshold: 50},
					TaskLabels: store.TaskLabels{Project: "p", Repo: "r", Kind: "implement"}, State: store.Firing, Episode: 1,
				})
			}
			e := New(DefaultConfig(), shipped, s, s, s, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			b.ReportAllocs()
			for b.Loop() {
				s.snapshot = c.snapshot.With(noon) // as fresh as any
				e.judged = c.judged
				clear(e.again)
				e.once(b.Context())
			}
			if e.blind["clickhouse"] != (time.Time{}) || e.judged == nil || e.judged != s.snapshot {
				b.Fatal("nothing was judged")
			}
		})
	}
}
