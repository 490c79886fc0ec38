package e2e

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/collector"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/simulate"
)

// truth is what a ledger must say.
type truth struct {
	spend map[simulate.Key]simulate.Sum
	turns map[string]uint64 // by "task result"
	tools map[string]uint64 // by "task tool outcome"
}

func newTruth() truth {
	return truth{map[simulate.Key]simulate.Sum{}, map[string]uint64{}, map[string]uint64{}}
}

// addFleet adds what a fleet spent.
func (w truth) addFleet(f simulate.Truth) {
	for _, r := range f.Rows {
		w.add(r.Key, r.Sum)
	}
	for _, a := range f.Activity {
		for result, n := range a.Turns {
			w.turns[a.Task+" "+result] += n
		}
		for _, c := range a.Tools {
			w.tools[a.Task+" "+c.Tool+" "+c.Outcome] += c.Count
		}
	}
}

func (w truth) add(k simulate.Key, s simulate.Sum) {
	sum := w.spend[k]
	sum.Add(s)
	w.spend[k] = sum
}

// dimensions are those that a simulated fleet knows.
func dimensions() map[string]func(simulate.Key) string {
	return map[string]func(simulate.Key) string{
		"task": simulate.ByTask, "project": simulate.ByProject, "repo": simulate.ByRepo,
		"kind": simulate.ByKind, "model": simulate.ByModel,
	}
}

// check compares what services answer with the truth, by all dimensions at once
// and by each, and lets verify recompute the ledger. All services must have the
// same ledger.
func (w truth) check(t *testing.T, services ...*service) {
	t.Helper()
	if len(w.spend) == 0 {
		t.Fatal("nothing was spent")
	}
	drained(t, services...)
	for _, s := range services {
		if diff := cmp.Diff(w.spend, spend(t, s, url.Values{})); diff != "" {
			t.Errorf("spend (-truth +ledger):\n%s", diff)
		}
		for name, of := range dimensions() {
			want, got := map[string]simulate.Sum{}, map[string]simulate.Sum{}
			for k, v := range w.spend {
				sum := want[of(k)]
				sum.Add(v)
				want[of(k)] = sum
			}
			for _, r := range query(t, s, url.Values{"by": {name}}).Rows {
				got[r.Keys[name]] = sumOf(t, &r.Sums)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("spend by %s (-truth +ledger):\n%s", name, diff)
			}
		}
	}
	verify(t, services[0])
}

// checkActivity compares turns and tools, as Grafana's account reads them.
func (w truth) checkActivity(t *testing.T, ch clickHouse) {
	t.Helper()
	for _, q := range []struct {
		sql  string
		want map[string]uint64
	}{
		{"SELECT concat(task, ' ', result), sum(turns) AS n FROM turns GROUP BY 1 HAVING n > 0", w.turns},
		{"SELECT concat(task, ' ', tool, ' ', outcome), sum(calls) AS n FROM tools GROUP BY 1 HAVING n > 0", w.tools},
	} {
		got := map[string]uint64{}
		for line := range strings.Lines(ch.must(t, q.sql)) {
			key, n, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			v, err := strconv.ParseUint(n, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			got[key] = v
		}
		if diff := cmp.Diff(q.want, got); diff != "" {
			t.Errorf("%s (-truth +ledger):\n%s", q.sql, diff)
		}
	}
}

func query(t *testing.T, s *service, params url.Values) *wire.Spend {
	t.Helper()
	answer, err := s.client.Spend(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// spend is what a service answers by all dimensions; the filter may narrow it.
func spend(t *testing.T, s *service, filter url.Values) map[simulate.Key]simulate.Sum {
	t.Helper()
	params := url.Values{}
	maps.Copy(params, filter)
	params.Set("by", strings.Join(slices.Sorted(maps.Keys(dimensions())), ","))
	answer := query(t, s, params)
	out := make(map[simulate.Key]simulate.Sum, len(answer.Rows))
	for _, r := range answer.Rows {
		k := simulate.Key{
			Task: r.Keys["task"], Project: r.Keys["project"], Repo: r.Keys["repo"], Kind: r.Keys["kind"], Model: r.Keys["model"],
		}
		if _, twice := out[k]; twice {
			t.Errorf("two rows for %+v", k)
		}
		out[k] = sumOf(t, &r.Sums)
	}
	return out
}

func sumOf(t *testing.T, s *wire.Sums) simulate.Sum {
	t.Helper()
	out := simulate.Sum{
		Input: s.InputTokens, Output: s.OutputTokens, CacheRead: s.CacheReadTokens, CacheWrite: s.CacheWriteTokens,
		UnpricedTokens: s.UnpricedTokens,
	}
	if s.CostUSD != nil {
		n, err := usage.ParseDollars(*s.CostUSD)
		if err != nil {
			t.Fatal(err)
		}
		out.Cost = simulate.Cost(usage.Some(n))
	}
	return out
}

// verify runs the command, which must find nothing.
func verify(t *testing.T, s *service) collector.Verification {
	t.Helper()
	got := command(t, append([]string{"verify", "--format", "json"}, s.reach...)...)
	var out collector.Verification
	if got.code != 0 {
		t.Errorf("verify ended with %d: %s\n%s", got.code, got.stderr, tail(got.stdout))
	} else if err := json.Unmarshal([]byte(got.stdout), &out); err != nil {
		t.Errorf("verify printed %q: %v", got.stdout, err)
	} else if len(out.Differences) > 0 || out.Charges == 0 {
		t.Errorf("verify: %+v", out)
	}
	return out
}
