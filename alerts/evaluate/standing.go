package evaluate

import (
	"iter"
	"math"
	"time"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

// State is how a task stands to its limits.
type State string

// The states, as callers see them.
const (
	OK       State = "ok"
	Warn     State = "warn"     // at WarnPercent of a limit, or over
	Exceeded State = "exceeded" // at a limit, or over
)

// WarnPercent is where [Warn] begins.
const WarnPercent = 80

// Measure is one dimension of a task that has a limit.
type Measure struct {
	Dimension ceiling.Dimension
	Value     uint64
	Limit     ceiling.Limit
}

// Percent is the value as a share of the limit, rounded down.
func (m Measure) Percent() uint64 {
	return uint64(math.Min(float64(m.Value)/float64(m.Limit.Value)*100, math.MaxInt32))
}

func (m Measure) reached(percent int) bool {
	return len(ceiling.Crossed(m.Limit.Value, m.Value, []int{percent})) > 0
}

// Standing is a task and how it stands to its limits.
type Standing struct {
	tasks.Task
	// At is the ledger's moment that the figures are of.
	At       time.Time
	Override *store.CeilingOverride // nil: none was set
	Ceiling  ceiling.Ceiling
	State    State
	// Ended is when somebody said that the task ended; zero: nobody did, or it
	// has gone on since.
	Ended time.Time
	// Quiet is whether it had no spend for so long that it is over: it raises
	// nothing new.
	Quiet bool
	// PerHour is what it spends in an hour, at the rate of the last one.
	PerHour usage.Nano
	// ReachedAt is when the first limit of the whole task will be reached at that
	// rate; zero: none will, or one is.
	ReachedAt time.Time
}

// Measures are the dimensions that are limited, in a fixed order.
func (s *Standing) Measures() iter.Seq[Measure] {
	return func(yield func(Measure) bool) {
		for _, d := range ceiling.Dimensions() {
			if limit := s.Ceiling.Of(d); limit.Value > 0 && !yield(Measure{d, value(&s.Task, d), limit}) {
				return
			}
		}
	}
}

// Over reports whether nothing more is expected of the task, so that it raises
// nothing.
func (s *Standing) Over() bool { return !s.Ended.IsZero() || s.Quiet }

// values are a task's figures by dimension.
func value(t *tasks.Task, d ceiling.Dimension) uint64 {
	switch d {
	case ceiling.TaskCost:
		return uint64(max(t.Total.Cost.Nano, 0))
	case ceiling.TaskTokens:
		return t.Total.Tokens
	case ceiling.TaskOutputTokens:
		return t.Total.OutputTokens
	case ceiling.TaskRuns:
		return t.Runs
	case ceiling.HourCost:
		return uint64(max(t.Hour.Cost.Nano, 0))
	case ceiling.HourTokens:
		return t.Hour.Tokens
	case ceiling.HourOutputTokens:
		return t.Hour.OutputTokens
	case ceiling.HourRuns:
		return t.HourRuns
	case ceiling.SessionSubagents:
		return t.Subagents
	}
	return 0
}

// endGrace is how long after its end spend of a task may still arrive: a last
// push is booked when it comes.
const endGrace = 5 * time.Minute

// stand judges a task. It is pure. end and override may be nil.
func stand(cfg *ceiling.Config, t tasks.Task, at time.Time, override *store.CeilingOverride, end *store.TaskEnd) Standing {
	s := Standing{
		Task: t, At: at, Override: override, State: OK,
		Ceiling: cfg.For(t.Project, t.Kind, t.Model),
		Quiet:   at.Sub(t.LastSpend) > cfg.Quiet,
	}
	if override != nil {
		s.Ceiling = s.Ceiling.With(ceilingOf(override))
	}
	if began := t.LastSpend.Add(-usage.BucketSize); end != nil && !began.After(end.At.Add(endGrace)) {
		s.Ended = end.At
	}
	for _, d := range ceiling.Dimensions() {
		limit := s.Ceiling.Of(d)
		if limit.Value == 0 {
			continue
		}
		switch m := (Measure{d, value(&t, d), limit}); {
		case m.reached(100):
			s.State = Exceeded
		case m.reached(WarnPercent) && s.State == OK:
			s.State = Warn
		}
	}
	s.project()
	return s
}

// leastSpan keeps a task that has just begun from being judged by its first
// seconds.
const leastSpan = 5 * time.Minute

// project estimates the rate, and when a limit is reached at it. The hour is
// that of the limits: 12 buckets and the current one.
func (s *Standing) project() {
	since := s.At.Truncate(usage.BucketSize).Add(-12 * usage.BucketSize)
	if s.FirstSpend.After(since) {
		since = s.FirstSpend
	}
	took := max(s.At.Sub(since), leastSpan).Hours()
	s.PerHour = usage.Nano(float64(max(s.Hour.Cost.Nano, 0)) / took)
	if s.Over() || s.State == Exceeded {
		return
	}
	const never = 10 * 365 * 24 // hours
	first := math.Inf(1)
	for m := range s.Measures() {
		var hourly uint64
		switch m.Dimension {
		case ceiling.TaskCost:
			hourly = value(&s.Task, ceiling.HourCost)
		case ceiling.TaskTokens:
			hourly = s.Hour.Tokens
		case ceiling.TaskOutputTokens:
			hourly = s.Hour.OutputTokens
		}
		if hourly > 0 {
			first = math.Min(first, float64(m.Limit.Value-m.Value)/(float64(hourly)/took))
		}
	}
	if first < never {
		s.ReachedAt = s.At.Add(time.Duration(first * float64(time.Hour))).Truncate(time.Second)
	}
}

// ceilingOf is the part of an override that changes a ceiling.
func ceilingOf(o *store.CeilingOverride) ceiling.Override {
	out := ceiling.Override{Exempt: o.Exempt}
	if o.CostNano != nil {
		nano := usage.Nano(*o.CostNano)
		out.USD = &nano
	}
	out.Tokens, out.OutputTokens = count(o.Tokens), count(o.OutputTokens)
	return out
}

func count(n *int64) *uint64 {
	if n == nil {
		return nil
	}
	c := uint64(*n)
	return &c
}
