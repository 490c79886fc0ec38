package clickhouse

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Long ranges are read from the hourly rollup and their edges from the
// buckets: every alignment must give what the buckets alone give, whatever is
// closed by then.
func TestSpendOverEdges(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var charges []usage.Charge
	for i := range 60 {
		charges = append(charges, charge(fmt.Sprint(i), at(time.Duration(i)*35*time.Minute), []string{"review", "refine"}[i%2], usage.Nano(1<<(i%40))))
	}
	write(t, s, 1, Derived{Charges: charges[:40]})
	closeAll(t, s)
	write(t, s, 2, Derived{Charges: charges[40:]}) // these stay dirty
	for _, from := range []time.Duration{0, 5 * time.Minute, 55 * time.Minute, time.Hour, 95 * time.Minute} {
		for _, to := range []time.Duration{25 * time.Hour, 26*time.Hour + 5*time.Minute, 30*time.Hour + 55*time.Minute} {
			q := SpendQuery{By: []string{"kind"}, From: at(from), To: at(to)}
			got := byKey(t, s, q)
			want := map[string]usage.Nano{}
			for _, c := range charges {
				if b := c.Bucket(); !b.Before(q.From) && b.Before(q.To) {
					want[c.Labels.Kind] += c.Cost.Nano
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("from %v to %v:\n%s", from, to, diff)
			}
			q.By = []string{"task"} // has no hourly grain
			var sum usage.Nano
			for _, n := range byKey(t, s, q) {
				sum += n
			}
			if sum != want["review"]+want["refine"] {
				t.Errorf("from %v to %v by task: %d, want %d", from, to, sum, want["review"]+want["refine"])
			}
		}
	}
}

func byKey(t *testing.T, s *Store, q SpendQuery) map[string]usage.Nano {
	t.Helper()
	rows, err := s.Spend(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]usage.Nano{}
	for _, r := range rows {
		out[r.Keys[0]] = r.Cost.Nano
	}
	return out
}

func TestSpendFiltersAndLabels(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	strange := []string{`it's`, `back\slash`, `"quoted"`, "new\nline", "🙂 emoji", "", "a,b|c", "{x:String}", "@from", "?"}
	var charges []usage.Charge
	for i, kind := range strange {
		c := charge(fmt.Sprint(i), at(0), kind, usage.Nano(i+1))
		c.Labels.Repo, c.FactRun = kind, kind
		charges = append(charges, c)
	}
	write(t, s, 1, Derived{Charges: charges})
	for range 2 { // dirty, then closed
		for i, kind := range strange {
			q := SpendQuery{By: []string{"repo"}, From: at(-time.Hour), To: at(time.Hour), Filter: map[string][]string{"kind": {kind}}}
			if diff := cmp.Diff(map[string]usage.Nano{kind: usage.Nano(i + 1)}, byKey(t, s, q)); diff != "" {
				t.Errorf("kind %q:\n%s", kind, diff)
			}
		}
		q := SpendQuery{By: []string{"kind"}, From: at(-time.Hour), To: at(time.Hour), Filter: map[string][]string{"kind": strange[:2]}}
		if got := byKey(t, s, q); len(got) != 2 {
			t.Errorf("two alternatives gave %v", got)
		}
		closeAll(t, s)
	}
}

func TestSpendRefusesUnknownDimensions(t *testing.T) {
	t.Parallel()
	for _, q := range []SpendQuery{
		{By: []string{"kind; DROP TABLE charges"}},
		{Filter: map[string][]string{"nonsense": {"x"}}},
		{Filter: map[string][]string{"day": {"x"}}},
	} {
		if _, _, err := spendSQL(q); !errors.Is(err, ErrDimension) {
			t.Errorf("%+v: error %v, want ErrDimension", q, err)
		}
	}
}

func TestSourcesAreHeard(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	e := usage.Event{ID: usage.Hash("a"), Content: usage.Hash("a"), Feed: usage.FeedCall, Time: at(-time.Hour), Arrived: at(0), Labels: usage.Labels{Project: "demo"}}
	for _, arrived := range []time.Time{at(time.Minute), at(0), at(30 * time.Second)} {
		e.Arrived = arrived
		if err := s.AppendFacts(t.Context(), 1, &usage.Facts{Events: []usage.Event{e}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Sources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Source{{Feed: "call", Project: "demo", First: at(0), Last: at(time.Minute)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
