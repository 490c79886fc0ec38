package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

type parts = map[store.FleetLabels]clickhouse.PushedPart

// spent is a part of so many output tokens, some of them before the cutoff.
func spent(all, old int64) clickhouse.PushedPart {
	return clickhouse.PushedPart{All: store.FleetAmounts{store.FleetOutput: all}, Old: store.FleetAmounts{store.FleetOutput: old}}
}

var (
	labelsA = store.FleetLabels{Project: "p", Kind: "a", Model: "m"}
	labelsB = store.FleetLabels{Project: "p", Kind: "b", Model: "m"}
	labelsC = store.FleetLabels{Project: "p", Kind: "a", Model: "n"}
)

// tally compares a run with what was counted of it, step by step.
type tally struct {
	known  map[string]store.FleetRun
	values map[store.FleetKey]int64
	past   int64
}

func (c *tally) step(p parts, unknown stranger) {
	runs, rises := count([]clickhouse.Pushed{{Run: "run", Parts: p, LastCharge: time.Unix(1, 0)}}, c.known, unknown)
	if c.known == nil {
		c.known, c.values = map[string]store.FleetRun{}, map[store.FleetKey]int64{}
	}
	for _, r := range runs {
		c.known[r.Run] = r
	}
	for _, r := range rises {
		c.values[r.FleetKey] += r.Value
		c.past += r.Past
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		steps   []parts
		unknown stranger
		want    map[store.FleetLabels]int64
		past    int64
	}{
		{"a new run", []parts{{labelsA: spent(5, 0)}}, forgotten, map[store.FleetLabels]int64{labelsA: 5}, 0},
		{"a rise", []parts{{labelsA: spent(5, 0)}, {labelsA: spent(7, 0)}}, forgotten, map[store.FleetLabels]int64{labelsA: 7}, 0},
		{"a fall is ignored until it is exceeded", []parts{{labelsA: spent(9, 0)}, {labelsA: spent(4, 0)}, {labelsA: spent(8, 0)}, {labelsA: spent(10, 0)}}, forgotten, map[store.FleetLabels]int64{labelsA: 10}, 0},
		{"other labels", []parts{{labelsA: spent(5, 0)}, {labelsB: spent(5, 0)}}, forgotten, map[store.FleetLabels]int64{labelsA: 5}, 0},
		{"other labels and a rise at once", []parts{{labelsA: spent(5, 0)}, {labelsB: spent(8, 0)}}, forgotten, map[store.FleetLabels]int64{labelsA: 5, labelsB: 3}, 0},
		{"another model", []parts{{labelsA: spent(5, 0)}, {labelsC: spent(6, 0)}}, forgotten, map[store.FleetLabels]int64{labelsA: 5, labelsC: 1}, 0},
		{"one run with two kinds", []parts{{labelsA: spent(5, 0), labelsB: spent(1, 0)}, {labelsA: spent(6, 0), labelsB: spent(3, 0)}}, forgotten, map[store.FleetLabels]int64{labelsA: 6, labelsB: 3}, 0},
		{"what vanished comes back", []parts{{labelsA: spent(5, 0)}, {}, {labelsA: spent(5, 0)}}, forgotten, map[store.FleetLabels]int64{labelsA: 5}, 0},
		{"a forgotten run", []parts{{labelsA: spent(5, 4)}, {labelsA: spent(7, 4)}}, forgotten, map[store.FleetLabels]int64{labelsA: 3}, 0},
		{"a forgotten run of other labels", []parts{{labelsA: spent(4, 4), labelsB: spent(2, 0)}}, forgotten, map[store.FleetLabels]int64{labelsB: 2}, 0},
		{"a ledger in use", []parts{{labelsA: spent(5, 4)}, {labelsA: spent(7, 4)}}, unread, map[store.FleetLabels]int64{labelsA: 7}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var c tally
			for _, p := range test.steps {
				c.step(p, test.unknown)
			}
			want := map[store.FleetKey]int64{}
			for l, n := range test.want {
				want[store.FleetKey{Amount: store.FleetOutput, FleetLabels: l}] = n
			}
			if diff := cmp.Diff(want, c.values); diff != "" {
				t.Error(diff)
			}
			if c.past != test.past {
				t.Errorf("%d of it are past; want %d", c.past, test.past)
			}
		})
	}
}

// Dollars of a run count once, whatever model they are found to be of.
func TestCountCostHasNoModel(t *testing.T) {
	t.Parallel()
	dollars := func(n int64) clickhouse.PushedPart {
		return clickhouse.PushedPart{All: store.FleetAmounts{store.FleetCost: n}}
	}
	var c tally
	c.step(parts{{Project: "p", Kind: "a"}: dollars(5)}, forgotten) // as reported
	c.step(parts{labelsA: dollars(4), labelsC: dollars(3)}, forgotten)
	want := map[store.FleetKey]int64{{Amount: store.FleetCost, FleetLabels: store.FleetLabels{Project: "p", Kind: "a"}}: 7}
	if diff := cmp.Diff(want, c.values); diff != "" {
		t.Error(diff)
	}
}

// Whatever a derivation says, the counters of a run come to its highest total.
func TestCountIsTheHighestTotal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		var c tally
		high := int64(0)
		for range 20 {
			p, sum := parts{}, int64(0)
			for _, l := range []store.FleetLabels{labelsA, labelsB, labelsC} {
				if n := r.Int64N(100); n > 40 {
					p[l], sum = spent(n, 0), sum+n
				}
			}
			high = max(high, sum)
			before := c.values[store.FleetKey{Amount: store.FleetOutput, FleetLabels: labelsA}]
			c.step(p, forgotten)
			var got int64
			for _, n := range c.values {
				got += n
			}
			if got != high || c.values[store.FleetKey{Amount: store.FleetOutput, FleetLabels: labelsA}] < before {
				t.Fatalf("seed %d: %d counted; want %d", seed, got, high)
			}
		}
	}
}
