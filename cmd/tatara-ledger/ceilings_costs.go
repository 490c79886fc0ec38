package main

import (
	"slices"
	"strconv"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// measures are the dimensions of which the past of a task is known.
func measures() []ceiling.Dimension {
	return []ceiling.Dimension{
		ceiling.TaskCost, ceiling.TaskTokens, ceiling.TaskOutputTokens, ceiling.TaskRuns,
		ceiling.HourCost, ceiling.HourTokens, ceiling.HourOutputTokens,
	}
}

// measure is what a task came to, false if that is not known.
func measure(t *clickhouse.TaskCost, d ceiling.Dimension) (uint64, bool) {
	switch d {
	case ceiling.TaskCost:
		return uint64(max(t.Cost.Nano, 0)), t.Cost.Valid
	case ceiling.HourCost:
		return uint64(max(t.HourCost, 0)), t.Cost.Valid
	case ceiling.TaskTokens:
		return t.Tokens, true
	case ceiling.TaskOutputTokens:
		return t.OutputTokens, true
	case ceiling.HourTokens:
		return t.HourTokens, true
	case ceiling.HourOutputTokens:
		return t.HourOutputTokens, true
	case ceiling.TaskRuns:
		return t.Runs, t.Runs > 0 // not every source names runs
	}
	return 0, false
}

// values are the known ones, in order.
func (k *kindTasks) values(d ceiling.Dimension) []uint64 {
	var out []uint64
	for i := range k.tasks {
		if v, ok := measure(&k.tasks[i], d); ok {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// percentile is the least value that p percent of the sorted values do not
// exceed.
func percentile(sorted []uint64, p int) uint64 {
	return sorted[max((p*len(sorted)+99)/100-1, 0)]
}

// candidateOf is where a candidate would put the limit.
func candidateOf(name string, sorted []uint64) uint64 {
	switch name {
	case candidateP95:
		return percentile(sorted, 95)
	case candidateP99:
		return percentile(sorted, 99)
	}
	return sorted[len(sorted)-1]
}

// stops is the rule of the evaluator at 100 %; 0 is no limit.
func stops(limit, value uint64) bool { return limit > 0 && value >= limit }

func (k *kindTasks) suggest(configured *ceiling.Config) suggestion {
	s := suggestion{Kind: k.kind, Tasks: len(k.tasks), Limits: []limitSuggestion{}}
	for i := range k.tasks {
		s.UnpricedTokens += k.tasks[i].UnpricedTokens
	}
	limits := k.limits(configured)
	for _, d := range measures() {
		sorted := k.values(d)
		if len(sorted) == 0 {
			continue
		}
		out := limitSuggestion{Limit: d.String(), Tasks: len(sorted), P50: exact(d, percentile(sorted, 50))}
		for _, name := range []string{candidateP95, candidateP99, candidateMax} {
			limit := candidateOf(name, sorted)
			c := candidate{Name: name, Value: limitValue(d, limit)}
			for _, v := range sorted {
				if stops(limit, v) {
					c.Stopped++
				}
			}
			out.Candidates = append(out.Candidates, c)
		}
		out.Candidates = append(out.Candidates, k.configured(d, limits))
		s.Limits = append(s.Limits, out)
	}
	return s
}

// limits are what is configured for the kind, by project.
func (k *kindTasks) limits(configured *ceiling.Config) map[string]ceiling.Ceiling {
	out := map[string]ceiling.Ceiling{}
	for i := range k.tasks {
		project := k.tasks[i].Project
		if _, ok := out[project]; !ok {
			out[project] = configured.For(project, k.kind, "")
		}
	}
	return out
}

// configured holds each task to the ceiling of its project.
func (k *kindTasks) configured(d ceiling.Dimension, limits map[string]ceiling.Ceiling) candidate {
	c := candidate{Name: candidateConfigured}
	distinct := map[uint64]struct{}{}
	for i := range k.tasks {
		limit := limits[k.tasks[i].Project].Of(d).Value
		distinct[limit] = struct{}{}
		if v, ok := measure(&k.tasks[i], d); ok && stops(limit, v) {
			c.Stopped++
		}
	}
	for limit := range distinct {
		if len(distinct) == 1 {
			c.Value = limitValue(d, limit)
		}
	}
	return c
}

// limitValue is nil for no limit.
func limitValue(d ceiling.Dimension, limit uint64) *string {
	if limit == 0 {
		return nil
	}
	s := exact(d, limit)
	return &s
}

// exact is a value as the file and the API have it.
func exact(d ceiling.Dimension, v uint64) string {
	if d.Money() {
		return usage.Nano(v).String()
	}
	return strconv.FormatUint(v, 10)
}
