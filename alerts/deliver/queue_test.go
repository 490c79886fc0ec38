package deliver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// states are what a queue gives, as task=summary.
func states(alerts []Alert) []string {
	var out []string
	for _, a := range alerts {
		out = append(out, a.Labels["task"]+"="+a.Annotations["summary"])
	}
	return out
}

func state(task int, summary string) Alert {
	a := firing(task)
	a.Annotations = map[string]string{"summary": summary}
	return a
}

func TestQueue(t *testing.T) {
	t.Parallel()
	length := prometheus.NewGauge(prometheus.GaugeOpts{Name: "length", Help: "Length."})
	q := newQueue(3, length)
	expect := func(what string, got []Alert, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, states(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		var m dto.Metric
		if err := length.Write(&m); err != nil {
			t.Fatal(err)
		}
		if int(m.GetGauge().GetValue()) != q.len() {
			t.Errorf("%s: the gauge says %v, %d wait", what, m.GetGauge().GetValue(), q.len())
		}
	}

	q.add([]Alert{state(1, "old"), state(2, "old")})
	q.add([]Alert{state(1, "new")})
	taken := q.take(3)
	expect("the newer state, in the older's place", taken, "1=new", "2=old")

	q.add([]Alert{state(2, "newest")})
	if full := q.putBack(taken); full != 0 {
		t.Errorf("%d had no room", full)
	}
	expect("what came meanwhile is newer than what comes back", q.take(3), "1=new", "2=newest")

	q.add([]Alert{state(3, ""), state(4, "")})
	if full := q.putBack([]Alert{state(1, ""), state(2, "")}); full != 1 {
		t.Errorf("%d had no room, want the oldest", full)
	}
	expect("a full queue", q.take(1), "2=")
	expect("a full queue", q.take(1), "3=")

	q.add([]Alert{state(5, ""), state(6, "")})
	if full, late := q.add([]Alert{state(7, "")}); full != 1 || late != 0 {
		t.Errorf("%d dropped, %d late, want the oldest dropped", full, late)
	}
	if n := q.close(); n != 3 {
		t.Errorf("%d left, want 3", n)
	}
	if full, late := q.add([]Alert{state(8, ""), state(9, "")}); full != 0 || late != 2 {
		t.Errorf("%d dropped, %d late, want both late", full, late)
	}
	expect("a closed queue", q.take(1))
}
