package clickhouse

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
)

func TestPushedSince(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	summaries := func(version uint64, runs ...usage.RunSummary) {
		if err := s.AppendDerived(t.Context(), &Derived{Version: version, Summaries: runs}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, first, last time.Duration) usage.RunSummary {
		return usage.RunSummary{Run: name, FirstSeen: at(first), LastSeen: at(last)}
	}
	summaries(10, run("b", 0, time.Hour), run("a", 0, time.Minute), run("early", -time.Hour, 0), run("old", 0, 0), run("again", time.Second, 0))
	summaries(20, run("b", 0, 2*time.Hour), run("a", 0, time.Minute), run("early", -time.Hour, 0), run("again", time.Millisecond, 0))
	var got []PushedSpan
	for after := (PushedSpan{}); ; after = got[len(got)-1] { // a page at a time
		page, err := s.PushedSince(t.Context(), 20, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	want := []PushedSpan{
		{"early", at(-time.Hour), at(0)}, {"a", at(0), at(time.Minute)}, {"b", at(0), at(2 * time.Hour)}, {"again", at(time.Millisecond), at(0)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPushedTotals(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	push := func(id int, run, kind string, t time.Time, cost usage.NullNano, counted bool) usage.Charge {
		c := charge(fmt.Sprint(id), t, kind, 0)
		c.Feed, c.FactRun, c.Cost, c.Counted = usage.FeedPush, run, cost, counted
		return c
	}
	call := charge("call", at(0), "k", 1000)
	call.FactRun = "run"
	gone := push(9, "run", "k", at(0), usage.Some(50), true)
	charges := []usage.Charge{
		push(1, "run", "k", at(0), usage.Some(5), true),
		push(2, "run", "k", at(time.Hour), usage.Some(6), false), // a call covers it
		push(3, "run", "k", at(time.Hour), usage.NullNano{}, true),
		push(4, "run", "a\x00b\xff", at(time.Hour), usage.Some(7), true),
		push(5, "other", "k", at(0), usage.Some(8), true),
		call, gone,
	}
	write(t, s, 1, Derived{Charges: charges})
	write(t, s, 3, Derived{GoneCharges: []usage.Charge{gone}})
	got, err := s.PushedTotals(t.Context(), []PushedSpan{{"run", at(0), at(time.Hour)}, {"none", at(0), at(0)}}, at(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	labels := func(kind string) store.FleetLabels {
		return store.FleetLabels{Project: "demo", Repo: "acme/widgets", Kind: kind, Model: "m"}
	}
	want := []Pushed{{Run: "run", LastCharge: at(time.Hour), Parts: map[store.FleetLabels]PushedPart{
		labels("k"):  {All: store.FleetAmounts{30, 60, 90, 120, 11}, Old: store.FleetAmounts{10, 20, 30, 40, 5}},
		labels("ab"): {All: store.FleetAmounts{10, 20, 30, 40, 7}},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The month's spend is the same whether or not the rollup has it yet.
func TestCostSince(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	before, other := charge("before", at(-time.Second), "k", 100), charge("other", at(0), "k", 7)
	other.Labels.Project = "other"
	write(t, s, 1, Derived{Charges: []usage.Charge{before, charge("a", at(0), "k", 5), charge("b", at(3*time.Hour), "k", 6), other}})
	want := []ProjectCost{{"demo", 11}, {"other", 7}}
	for range 3 {
		got, err := s.CostSince(t.Context(), at(0))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if _, err := s.CloseBuckets(t.Context(), Quiet{}, 100); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CloseHours(t.Context(), Quiet{}, 100); err != nil {
			t.Fatal(err)
		}
	}
}
