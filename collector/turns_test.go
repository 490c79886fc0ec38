package collector

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

func TestMarksCoverAllDerivedRows(t *testing.T) {
	t.Parallel()
	charge := func(minute time.Duration) []usage.Charge {
		return []usage.Charge{{Time: noon.Add(minute * time.Minute)}}
	}
	activity := func(minute time.Duration) []usage.Activity {
		return []usage.Activity{{Time: noon.Add(minute * time.Minute)}, {Time: noon}}
	}
	d := derivation{out: clickhouse.Derived{Charges: charge(16), GoneCharges: charge(11), Activity: activity(6), GoneActivity: activity(21)}}
	want := []time.Time{noon, noon.Add(5 * time.Minute), noon.Add(10 * time.Minute), noon.Add(15 * time.Minute), noon.Add(20 * time.Minute)}
	if diff := cmp.Diff(want, d.buckets()); diff != "" {
		t.Error(diff)
	}
	if got := new(derivation).buckets(); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// A turn that used no tokens leaves a mark, so that those who watch marks see
// it, also when a link moves it later; and its bucket closes.
func TestTurnsAloneLeaveMarks(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	turn := func(pushes uint64, arrived time.Time) *usage.Facts {
		p, err := usage.NewSample("r", "pod", arrived, pushes, usage.Counters{Turns: []usage.TurnCounter{{Result: "success", Count: pushes}}})
		if err != nil {
			t.Fatal(err)
		}
		return &usage.Facts{Samples: []usage.Sample{p}}
	}
	seen := map[uint64]bool{}
	marked := func(step string, buckets ...time.Time) {
		t.Helper()
		m, err := s.TaskMarks(t.Context(), time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		got := map[time.Time]bool{}
		for _, x := range m.Marks {
			if x.Open {
				t.Errorf("%s: %+v is open", step, x)
			}
			if !seen[x.Mark] {
				got[x.Bucket] = true
			}
		}
		for _, x := range m.Marks {
			seen[x.Mark] = true
		}
		want := map[time.Time]bool{}
		for _, b := range buckets {
			want[b] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: new marks:\n%s", step, diff)
		}
	}
	write(t, w, turn(1, noon))
	marked("the first turn", noon)
	closeAll(t, s)
	write(t, w, turn(2, noon.Add(10*time.Minute)))
	marked("the second", noon.Add(10*time.Minute))
	write(t, w, &usage.Facts{Links: []usage.Link{{Run: "r", Task: "t", Arrived: noon}}})
	marked("both under another task", noon, noon.Add(10*time.Minute))
	closeAll(t, s)
	if n, err := s.DirtyBuckets(t.Context()); n != 0 || err != nil {
		t.Errorf("%d buckets stay dirty, error %v", n, err)
	}
	if got := spend(t, s, "task"); len(got) > 0 {
		t.Errorf("turns cost %v", got)
	}
}
