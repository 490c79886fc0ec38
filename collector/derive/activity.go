package derive

import (
	"slices"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// activity derives the increases of the counters of a life that are not money.
func activity(f RunFacts, run usage.Labels, life []usage.Sample) []usage.Activity {
	var out []usage.Activity
	turns := map[string]uint64{}
	tools := map[[2]string]uint64{}
	var durations usage.DurationCounter
	for _, s := range life {
		add := func(a usage.Activity) {
			a.ID = usage.Hash("activity", s.ID.String(), string(a.Name), a.Result, a.Tool, a.Outcome)
			a.FactRun, a.Feed, a.Time, a.Labels = f.Run, usage.FeedPush, s.Arrived, run
			out = append(out, a)
		}
		for _, c := range s.Counters.Turns {
			if h := turns[c.Result]; c.Count > h {
				turns[c.Result] = c.Count
				add(usage.Activity{Name: usage.ActivityTurns, Result: c.Result, Count: c.Count - h})
			}
		}
		for _, c := range s.Counters.Tools {
			k := [2]string{c.Tool, c.Outcome}
			if h := tools[k]; c.Count > h {
				tools[k] = c.Count
				add(usage.Activity{Name: usage.ActivityTools, Tool: c.Tool, Outcome: c.Outcome, Count: c.Count - h})
			}
		}
		if d := s.Counters.Durations; d.Count > durations.Count {
			add(durationIncrease(durations, d))
			durations = d
		}
	}
	return out
}

func durationIncrease(from, to usage.DurationCounter) usage.Activity {
	a := usage.Activity{
		Name:    usage.ActivityDurations,
		Count:   to.Count - from.Count,
		Seconds: to.Sum - from.Sum,
		Bounds:  to.Bounds,
		Buckets: slices.Clone(to.Buckets),
	}
	for i, v := range from.Buckets {
		if i < len(a.Buckets) {
			a.Buckets[i] -= v
		}
	}
	return a
}
