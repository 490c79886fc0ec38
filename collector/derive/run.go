package derive

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// RunFacts are all stored facts that the charges of one run's pushes follow
// from.
type RunFacts struct {
	Run     string
	Samples []usage.Sample // of this run, in any order, duplicates allowed
	Ends    []usage.End
	Link    *usage.Link // the latest; nil if none
	// Covered are the models for which a more trusted feed speaks of this
	// run, by the name that [Deriver.Model] gives them: pushes of these models are
	// kept but do not count.
	Covered map[string]bool
}

// Run is what follows from the facts of one run.
type Run struct {
	Summary  usage.RunSummary
	Charges  []usage.Charge
	Activity []usage.Activity
}

// Deriver turns facts into charges. It is immutable: safe for concurrent use.
type Deriver struct {
	prices      *pricing.Book
	taskPattern *regexp.Regexp
}

// New returns a deriver that prices with book. taskPattern, if not nil, has one
// capture group that yields the task of a pod name.
func New(book *pricing.Book, taskPattern *regexp.Regexp) *Deriver {
	return &Deriver{prices: book, taskPattern: taskPattern}
}

// Model is the name under which the price book knows a model, so that feeds
// which write it with and without its date speak of the same; a model that the
// book does not know keeps its name.
func (d *Deriver) Model(name string) string { return d.prices.Canonical(name) }

// Run derives the charges and the activity of a run's pushes. The first value
// of a life counts in full; an increase is booked whole at the earliest
// arrival, within its life, of at least that value.
func (d *Deriver) Run(f RunFacts) Run {
	f.Samples = canonical(f.Samples)
	split := lives(f.Samples)
	labels := d.runLabels(f)
	out := Run{Summary: summary(f, labels, len(split))}
	for _, life := range split {
		ordered := inArrivalOrder(life)
		out.Charges = append(out.Charges, d.tokenCharges(f, labels, ordered)...)
		out.Charges = append(out.Charges, costCharges(f, labels, ordered)...)
		out.Activity = append(out.Activity, activity(f, labels, ordered)...)
	}
	countDollarCounters(out.Charges, len(f.Covered) > 0)
	return out
}

// runLabels are the labels of everything that carries none of its own.
func (d *Deriver) runLabels(f RunFacts) usage.Labels {
	l := usage.Labels{Run: f.Run}
	for _, s := range f.Samples {
		for _, t := range s.Counters.Tokens {
			l.Project = cmp.Or(l.Project, t.Labels.Project)
			l.Repo = cmp.Or(l.Repo, t.Labels.Repo)
			l.Kind = cmp.Or(l.Kind, t.Labels.Kind)
		}
	}
	l.Task = d.taskOfPod(podOf(f))
	if f.Link != nil {
		l.Task = cmp.Or(f.Link.Task, l.Task)
		l = fill(l, f.Link)
	}
	return l
}

func podOf(f RunFacts) string {
	if f.Link != nil && f.Link.Pod != "" {
		return f.Link.Pod
	}
	for _, s := range f.Samples { // in order of arrival
		if s.Pod != "" {
			return s.Pod
		}
	}
	return ""
}

func (d *Deriver) taskOfPod(pod string) string {
	if d.taskPattern != nil {
		if m := d.taskPattern.FindStringSubmatch(pod); len(m) > 1 && m[1] != "" {
			return m[1]
		}
	}
	return pod
}

// fill sets what l leaves empty from the link of its run.
func fill(l usage.Labels, link *usage.Link) usage.Labels {
	l.Project = cmp.Or(l.Project, link.Project)
	l.Repo = cmp.Or(l.Repo, link.Repo)
	l.Kind = cmp.Or(l.Kind, link.Kind)
	l.Task = cmp.Or(l.Task, link.Task)
	l.Issue = cmp.Or(l.Issue, link.Issue)
	l.Run = cmp.Or(l.Run, link.Run)
	l.Session = cmp.Or(l.Session, link.Session)
	l.Effort = cmp.Or(l.Effort, link.Effort)
	return l
}

// seriesLabels are the labels of a charge of one series: the series' own where
// it says them, else the link's. A value that another series of the run
// carries is not borrowed: one pod may work on several repositories.
func seriesLabels(f RunFacts, run usage.Labels, own usage.SampleLabels) usage.Labels {
	l := usage.Labels{Project: own.Project, Repo: own.Repo, Kind: own.Kind, Model: own.Model, Run: f.Run, Task: run.Task}
	if f.Link != nil {
		l = fill(l, f.Link)
	}
	return l
}

func (d *Deriver) tokenCharges(f RunFacts, run usage.Labels, life []usage.Sample) []usage.Charge {
	var out []usage.Charge
	high := map[usage.SampleLabels]usage.TokenCounter{}
	for _, s := range life {
		for _, c := range s.Counters.Tokens {
			h := high[c.Labels]
			inc := usage.Tokens{
				Input:      raise(&h.Input, c.Input),
				Output:     raise(&h.Output, c.Output),
				CacheRead:  raise(&h.CacheRead, c.CacheRead),
				CacheWrite: raise(&h.CacheWrite, c.CacheWrite),
			}
			high[c.Labels] = h
			if inc.IsZero() {
				continue
			}
			ch := sampleCharge(f, &s, "tokens", c.Labels)
			ch.Labels = seriesLabels(f, run, c.Labels)
			ch.Tokens = inc
			ch.Counted = !f.Covered[d.Model(c.Labels.Model)]
			d.price(&ch, pricing.Usage{Model: c.Labels.Model, Time: s.Arrived, Tokens: inc})
			out = append(out, ch)
		}
	}
	return out
}

// costCharges are the increases of the pushed dollar counters. Whether they
// count is decided for the whole run, by countDollarCounters.
func costCharges(f RunFacts, run usage.Labels, life []usage.Sample) []usage.Charge {
	var out []usage.Charge
	high := map[usage.SampleLabels]usage.Nano{}
	for _, s := range life {
		for _, c := range s.Counters.Costs {
			if c.Cost <= high[c.Labels] {
				continue
			}
			ch := sampleCharge(f, &s, "cost", c.Labels)
			ch.Labels = seriesLabels(f, run, c.Labels)
			ch.Reported = usage.Some(c.Cost - high[c.Labels])
			ch.Counted = true
			high[c.Labels] = c.Cost
			out = append(out, ch)
		}
	}
	return out
}

func sampleCharge(f RunFacts, s *usage.Sample, family string, l usage.SampleLabels) usage.Charge {
	return usage.Charge{
		ID:      usage.Hash("charge", s.ID.String(), family, l.Project, l.Repo, l.Kind, l.Model),
		FactRun: f.Run,
		Feed:    usage.FeedPush,
		Time:    s.Arrived,
	}
}

// countDollarCounters makes the dollar counters of a run count where none of
// its tokens could be priced. A dollar counter has no model, so next to any
// priced model it would count that model twice; next to a more trusted feed it
// is kept for comparison only.
func countDollarCounters(charges []usage.Charge, covered bool) {
	priced := slices.ContainsFunc(charges, func(c usage.Charge) bool { return c.Computed.Valid })
	for i := range charges {
		c := &charges[i]
		if !c.Reported.Valid {
			continue
		}
		c.Counted = !covered
		if !covered && !priced {
			c.Cost, c.Estimated = c.Reported, true
		}
	}
}

func summary(f RunFacts, labels usage.Labels, n int) usage.RunSummary {
	sum := usage.RunSummary{Run: f.Run, Pod: podOf(f), Labels: labels, Lives: uint64(n)}
	sum.FirstSeen, sum.LastSeen = span(f.Samples)
	for _, e := range f.Ends {
		if !e.Arrived.Before(sum.LastSeen) && e.Arrived.After(sum.Ended) {
			sum.Ended = e.Arrived
		}
	}
	return sum
}

// raise lifts *high to v and returns by how much; a lower v changes nothing.
func raise(high *uint64, v uint64) uint64 {
	if v <= *high {
		return 0
	}
	inc := v - *high
	*high = v
	return inc
}
