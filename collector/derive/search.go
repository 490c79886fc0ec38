package derive

import (
	"fmt"
	"math"
	"slices"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const (
	// openLives is how many processes may still be pushing: the newest and
	// those whose late pushes arrive after it.
	openLives = 3
	// beamWidth is how many histories are followed at once. Few samples leave
	// more than two ways open, so the best one is practically never dropped.
	beamWidth = 24
	// hopelessCost is by how much a history may cost more than the cheapest and
	// still be followed: more than several lost pushes or restarts win back.
	hopelessCost = 10
	// newLifeCost weighs a restart against the pushes that must have been lost
	// otherwise. It is about as likely as an outage of eight pushes.
	newLifeCost = 4
	// disorderCost weighs a push that another of the same process overtook,
	// which needs two connections or two replicas.
	disorderCost = 2
	// coincidenceCost weighs a new process that spent, to the token and tool call,
	// what another has: it is next to impossible, but no proof.
	coincidenceCost = 12
	// maxOvertaken bounds by how many pushes of its process one may be
	// overtaken: a restart is likelier than more.
	maxOvertaken = 8
	// maxSilent is after how many pushes of the run an older process that sent
	// none of them is taken for dead. A late push is one or a few late; without
	// the bound every restart would double the histories for ever, and a run of
	// a hundred lives would take minutes.
	maxSilent = 32
)

// search takes samples in the order of arrival and follows the likeliest
// histories: each sample continues the newest process, is a late push of an
// older one, was overtaken within its process, or is the first of a new one.
// A history costs what it takes to believe it: pushes lost in between
// (logarithmic, an outage loses many at once), late pushes (one is likely,
// several are not), disorder and restarts. Where costs tie, the one that was
// possible first wins.
func search(order []usage.Sample) [][]usage.Sample {
	beam := []*history{{}}
	// The pushes before a process's first turn look the same in every life and
	// are one fact, so a life may begin after them with nothing lost.
	idle := uint64(0)
	spent := map[string]bool{}
	for i := range order {
		s := &order[i]
		key := spendKey(&s.Counters)
		again := key != "" && spent[key]
		spent[key] = true
		next := make([]*history, 0, len(beam)*(openLives+1))
		for _, h := range beam {
			next = h.extend(next, s, i, idle, again)
		}
		beam = prune(next)
		if isIdle(&s.Counters) {
			idle = max(idle, s.Pushes+1)
		}
	}
	best := beam[0]
	out := make([][]usage.Sample, best.lives)
	i := len(order)
	for h := best; h.parent != nil; h = h.parent {
		i--
		out[h.life] = append(out[h.life], order[i])
	}
	for _, life := range out {
		slices.Reverse(life)
	}
	return out
}

// history is one way to read the samples so far. It is immutable.
type history struct {
	parent *history // of the samples before the last
	life   int      // of the last sample
	lives  int
	cost   float64
	open   [openLives]process // newest first
}

// newerThan is the latest push of the process that follows; the newest is never
// taken for dead.
func newerThan(newer []process) *push {
	for k := len(newer) - 1; ; k-- {
		if newer[k].last != nil {
			return newer[k].last
		}
	}
}

// process is a life that may still push.
type process struct {
	life int
	last *push // the highest push count so far; nil if there is no process
	at   int   // when its latest sample came, counted in samples of the run
}

// push is a sample in a life, by descending push count.
type push struct {
	sample *usage.Sample
	before *push
}

// extend adds the histories that s, the ith sample, makes of h.
func (h *history) extend(to []*history, s *usage.Sample, i int, idle uint64, again bool) []*history {
	open := h.open
	for k := 1; k < openLives; k++ {
		if i-open[k].at > maxSilent {
			open[k] = process{}
		}
	}
	for k := range open {
		p := &open[k]
		// Without a push count nothing tells a late push from a restart.
		if p.last == nil || (k > 0 && s.Pushes == 0) {
			continue
		}
		last, cost := p.last.insert(s)
		if last == nil {
			continue
		}
		n := &history{parent: h, life: p.life, lives: h.lives, cost: h.cost + cost, open: open}
		n.open[k].last, n.open[k].at = last, i
		if k > 0 {
			n.cost += late(newerThan(open[:k]))
		}
		if again && !last.holds(s) {
			n.cost += coincidenceCost
		}
		to = append(to, n)
	}
	n := &history{parent: h, life: h.lives, lives: h.lives + 1, cost: h.cost + newLifeCost}
	if s.Pushes > idle {
		n.cost += math.Log2(float64(s.Pushes - idle + 1))
	}
	if again {
		n.cost += coincidenceCost
	}
	n.open[0] = process{life: h.lives, last: &push{sample: s}, at: i}
	copy(n.open[1:], open[:])
	return append(to, n)
}

// insert returns the life with s at its place and what that costs; nil if s
// does not fit.
func (p *push) insert(s *usage.Sample) (*push, float64) {
	last := p.sample
	if s.Pushes > last.Pushes || s.Pushes == 0 && last.Pushes == 0 {
		if !continues(last, s) {
			return nil, 0
		}
		return &push{s, p}, lost(last, s)
	}
	if !continues(s, last) {
		return nil, 0
	}
	return p.insertBelow(s, maxOvertaken)
}

// insertBelow inserts s, which no counter of p's sample is below. A life only
// rises, so only the sample before its place remains to be compared.
func (p *push) insertBelow(s *usage.Sample, most int) (*push, float64) {
	switch {
	case p.sample.Pushes == s.Pushes || most == 0:
		return nil, 0
	case p.before == nil:
		return &push{p.sample, &push{sample: s}}, disorderCost
	case p.before.sample.Pushes < s.Pushes:
		if !continues(p.before.sample, s) || !continues(s, p.sample) {
			return nil, 0
		}
		return &push{p.sample, &push{s, p.before}}, disorderCost
	}
	before, cost := p.before.insertBelow(s, most-1)
	if before == nil {
		return nil, 0
	}
	return &push{p.sample, before}, cost + disorderCost
}

// lost is what it takes to believe that nothing between two pushes arrived:
// pushes that are missing, and turns that ended without being seen.
func lost(from, to *usage.Sample) float64 {
	cost := 0.5 * math.Log2(1+float64(turns(to)-turns(from)))
	if to.Pushes > from.Pushes+1 {
		cost += math.Log2(float64(to.Pushes - from.Pushes))
	}
	return cost
}

// late is what it takes to believe that a process still pushes when the one
// after it has: it dies soon after.
func late(newer *push) float64 { return math.Log2(1 + float64(newer.sample.Pushes)) }

func turns(s *usage.Sample) (n uint64) {
	for _, t := range s.Counters.Turns {
		n += t.Count
	}
	return n
}

func isIdle(c *usage.Counters) bool {
	return len(c.Tokens) == 0 && len(c.Turns) == 0 && len(c.Costs) == 0 && len(c.Tools) == 0
}

// prune keeps the cheapest histories, and of those with the same open
// processes only the cheapest: what follows cannot tell them apart.
func prune(all []*history) []*history {
	slices.SortStableFunc(all, func(a, b *history) int {
		switch {
		case a.cost < b.cost:
			return -1
		case a.cost > b.cost:
			return 1
		}
		return 0
	})
	out := all[:0]
	for _, h := range all {
		if len(out) == beamWidth || h.cost > all[0].cost+hopelessCost {
			break
		}
		if !slices.ContainsFunc(out, func(o *history) bool { return o.sameEnds(h) }) {
			out = append(out, h)
		}
	}
	return out
}

func (h *history) sameEnds(o *history) bool {
	for k := range h.open {
		a, b := h.open[k], o.open[k]
		if (a.last == nil) != (b.last == nil) || a.last != nil && (a.last.sample != b.last.sample) {
			return false
		}
	}
	return true
}

// spendKey is equal for snapshots that sameSpend takes for equal; "" if nothing
// was spent yet, which says nothing about whose snapshot it is.
func spendKey(c *usage.Counters) string {
	if len(c.Tokens) == 0 {
		return ""
	}
	return fmt.Sprint(c.Tokens, c.Tools, c.Turns, c.Durations.Sum)
}

// holds reports whether another push of the life has the counters of s.
func (p *push) holds(s *usage.Sample) bool {
	for ; p != nil; p = p.before {
		if p.sample != s && sameSpend(&p.sample.Counters, &s.Counters) {
			return true
		}
	}
	return false
}

func sameSpend(a, b *usage.Counters) bool {
	return a.Durations.Sum == b.Durations.Sum && slices.Equal(a.Tokens, b.Tokens) &&
		slices.Equal(a.Tools, b.Tools) && slices.Equal(a.Turns, b.Turns)
}
