package derive

import (
	"cmp"
	"slices"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// lives splits the samples of one run, as [canonical] returns them, into the processes that sent them, each
// in the order of its push counts. A run id is reused by a respawned pod, and
// the old pod's last pushes may arrive after the new pod's first.
//
// Within one process the push count strictly rises and no counter falls. If all
// samples fit one process, it is one. Else [search] finds the likeliest history
// that is in keeping with that.
func lives(order []usage.Sample) [][]usage.Sample {
	byCount := slices.Clone(order)
	slices.SortStableFunc(byCount, func(a, b usage.Sample) int { return cmp.Compare(a.Pushes, b.Pushes) })
	if isOneLife(byCount) {
		return [][]usage.Sample{byCount}
	}
	out := search(order)
	for _, life := range out {
		slices.SortStableFunc(life, func(a, b usage.Sample) int { return cmp.Compare(a.Pushes, b.Pushes) })
	}
	return out
}

func isOneLife(byCount []usage.Sample) bool {
	for i := 1; i < len(byCount); i++ {
		if !continues(&byCount[i-1], &byCount[i]) {
			return false
		}
	}
	return len(byCount) > 0
}

// canonical keeps each identity once, with its earliest arrival, in the order of
// arrival. Whatever is derived from it depends only on the set of samples,
// never on the order in which they are given or on how often.
func canonical(samples []usage.Sample) []usage.Sample {
	at := make(map[usage.ID]int, len(samples))
	out := make([]usage.Sample, 0, len(samples))
	for _, s := range samples {
		i, seen := at[s.ID]
		if !seen {
			at[s.ID] = len(out)
			out = append(out, s)
			continue
		}
		// The pod is no part of the identity.
		if cmp.Or(s.Arrived.Compare(out[i].Arrived), cmp.Compare(s.Pod, out[i].Pod)) < 0 {
			out[i] = s
		}
	}
	slices.SortFunc(out, func(a, b usage.Sample) int {
		return cmp.Or(a.Arrived.Compare(b.Arrived), slices.Compare(a.ID[:], b.ID[:]))
	})
	return out
}

// continues reports whether next can be a later snapshot of last's process.
func continues(last, next *usage.Sample) bool {
	if next.Pushes <= last.Pushes && next.Pushes != 0 {
		return false
	}
	a, b := &last.Counters, &next.Counters
	return covers(a.Tokens, b.Tokens, func(x, y *usage.TokenCounter) (bool, bool) {
		return x.Labels == y.Labels, x.Input <= y.Input && x.Output <= y.Output &&
			x.CacheRead <= y.CacheRead && x.CacheWrite <= y.CacheWrite
	}) && covers(a.Costs, b.Costs, func(x, y *usage.CostCounter) (bool, bool) {
		return x.Labels == y.Labels, x.Cost <= y.Cost
	}) && covers(a.Turns, b.Turns, func(x, y *usage.TurnCounter) (bool, bool) {
		return x.Result == y.Result, x.Count <= y.Count
	}) && covers(a.Tools, b.Tools, func(x, y *usage.ToolCounter) (bool, bool) {
		return x.Tool == y.Tool && x.Outcome == y.Outcome, x.Count <= y.Count
	}) && a.Durations.Count <= b.Durations.Count && a.Durations.Sum <= b.Durations.Sum &&
		bucketsRise(a.Durations, b.Durations)
}

// covers reports whether every series of a is in b with no lower value. Both
// are sorted by their labels, so one walk suffices.
func covers[T any](a, b []T, match func(x, y *T) (same, rises bool)) bool {
	j := 0
	for i := range a {
		found := false
		for ; j < len(b) && !found; j++ {
			same, rises := match(&a[i], &b[j])
			if same && !rises {
				return false
			}
			found = same
		}
		if !found {
			return false
		}
	}
	return true
}

func bucketsRise(a, b usage.DurationCounter) bool {
	if !slices.Equal(a.Bounds, b.Bounds) {
		return len(a.Bounds) == 0
	}
	for i := range a.Buckets {
		if i >= len(b.Buckets) || a.Buckets[i] > b.Buckets[i] {
			return false
		}
	}
	return true
}

// inArrivalOrder is a copy of a life sorted by arrival: the order in which its
// increases are booked.
func inArrivalOrder(life []usage.Sample) []usage.Sample {
	out := slices.Clone(life)
	slices.SortStableFunc(out, func(a, b usage.Sample) int { return a.Arrived.Compare(b.Arrived) })
	return out
}

// span is the first and the last arrival of any sample.
func span(samples []usage.Sample) (first, last time.Time) {
	for i, s := range samples {
		if i == 0 || s.Arrived.Before(first) {
			first = s.Arrived
		}
		if s.Arrived.After(last) {
			last = s.Arrived
		}
	}
	return first, last
}
