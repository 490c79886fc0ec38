package simulate_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/simulate"
)

// memory records facts, losing or doubting some.
type memory struct {
	lossy bool

	mu    sync.Mutex
	rng   *rand.Rand
	facts map[string]*derive.RunFacts
}

func (m *memory) Record(_ context.Context, f *usage.Facts) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	luck := 3
	if m.lossy {
		luck = m.rng.IntN(4)
	}
	if luck > 0 {
		for _, s := range f.Samples {
			m.run(s.Run).Samples = append(m.run(s.Run).Samples, s)
		}
		for _, e := range f.Ends {
			m.run(e.Run).Ends = append(m.run(e.Run).Ends, e)
		}
	}
	if luck < 2 { // lost, or kept and not acknowledged
		return context.DeadlineExceeded
	}
	return nil
}

func (m *memory) run(run string) *derive.RunFacts {
	if m.facts[run] == nil {
		m.facts[run] = &derive.RunFacts{Run: run}
	}
	return m.facts[run]
}

// TestLedgerDerivesTheTruth: the ledger's receiver and derivation arrive at
// the truth to the token, nano-dollar, turn and tool call, through a lossy
// receiver too.
func TestLedgerDerivesTheTruth(t *testing.T) {
	t.Parallel()
	book, err := pricing.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, lossy := range map[string]bool{"reliable": false, "lossy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &memory{lossy: lossy, rng: rand.New(rand.NewPCG(5, 5)), facts: map[string]*derive.RunFacts{}}
			r := receive.New(receive.DefaultConfig(), m, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			server := httptest.NewServer(http.HandlerFunc(r.Push))
			t.Cleanup(server.Close)
			cfg := simulate.DefaultConfig()
			cfg.PushURLs, cfg.Interval, cfg.Pods, cfg.Respawns = []string{server.URL}, 0, 30, 7
			cfg.Duplicate, cfg.Shuffle, cfg.UntilAcknowledged = true, true, true
			cfg.BackoffMin, cfg.BackoffMax = time.Millisecond, 10*time.Millisecond
			cfg.Models = append(cfg.Models, "house-llm")
			fleet, err := simulate.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			truth, report, err := fleet.Run(t.Context())
			if err != nil || report.Unacknowledged > 0 {
				t.Fatalf("%v: %+v", err, report)
			}
			if lossy && report.Rejected[http.StatusInternalServerError] == 0 {
				t.Errorf("nothing was refused: %+v", report)
			}
			sums, turns, tools := derived(derive.New(book, nil), m.facts)
			want := map[simulate.Key]simulate.Sum{}
			for _, row := range truth.Rows {
				want[row.Key] = row.Sum
			}
			if diff := cmp.Diff(want, sums); diff != "" {
				t.Errorf("(-truth +derived):\n%s", diff)
			}
			if diff := cmp.Diff(truth.Turns(), turns); diff != "" {
				t.Errorf("turns (-truth +derived):\n%s", diff)
			}
			if diff := cmp.Diff(truth.Tools(), tools); diff != "" {
				t.Errorf("tools (-truth +derived):\n%s", diff)
			}
		})
	}
}

func derived(d *derive.Deriver, facts map[string]*derive.RunFacts) (sums map[simulate.Key]simulate.Sum, turns map[string]uint64, tools map[simulate.Tool]uint64) {
	sums, turns, tools = map[simulate.Key]simulate.Sum{}, map[string]uint64{}, map[simulate.Tool]uint64{}
	for _, f := range facts {
		slices.Reverse(f.Samples) // the order in which they are given is of no meaning
		run := d.Run(*f)
		for _, c := range run.Charges {
			k := simulate.Key{Task: c.Labels.Task, Project: c.Labels.Project, Repo: c.Labels.Repo, Kind: c.Labels.Kind, Model: c.Labels.Model}
			s := sums[k]
			s.Add(simulate.Sum{
				Input: c.Tokens.Input, Output: c.Tokens.Output, CacheRead: c.Tokens.CacheRead, CacheWrite: c.Tokens.CacheWrite,
				Cost: simulate.Cost(c.Cost), UnpricedTokens: c.UnpricedTokens,
			})
			sums[k] = s
		}
		for _, a := range run.Activity {
			switch a.Name {
			case usage.ActivityTurns:
				turns[a.Result] += a.Count
			case usage.ActivityTools:
				tools[simulate.Tool{Name: a.Tool, Outcome: a.Outcome}] += a.Count
			}
		}
	}
	return sums, turns, tools
}
