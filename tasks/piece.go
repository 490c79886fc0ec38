package tasks

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// segment is a stretch of time that is read and replaced as a whole: a bucket,
// or those buckets of a day that have left the window.
type segment struct {
	start int64 // Unix seconds
	day   bool
}

func dayOf(bucket int64) segment {
	return segment{bucket - bucket%int64(day/time.Second), true}
}

type labels struct{ project, repo, kind, issue string }

// sessionAgent is a subagent of a session.
type sessionAgent struct{ session, agent string }

// piece is what one task spent in one segment, and the turns that it took. It
// never changes: a new reading replaces it.
type piece struct {
	spent bool // else there are only turns
	labels
	first, last int64 // buckets with spend, Unix seconds; without, of the last turn
	amounts     Amounts
	models      []Model        // by name
	runs        []string       // sorted
	agents      []sessionAgent // sorted
	turns       *Turns         // nil: none
}

// maxStrings bounds what a reader remembers of strings: about 100 MB.
const maxStrings = 1_000_000

// reader makes pieces of what was read. It lets equal strings share their
// memory: a task has the same few in each of its pieces.
type reader struct {
	canonical func(string) string
	strings   map[string]string
}

func newReader(canonical func(string) string) *reader {
	return &reader{canonical, map[string]string{}}
}

func (r *reader) shared(s string) string {
	if known, ok := r.strings[s]; ok {
		return known
	}
	if len(r.strings) >= maxStrings {
		clear(r.strings)
	}
	r.strings[s] = s
	return s
}

func (r *reader) piece(s *clickhouse.TaskSpend) *piece {
	p := &piece{
		spent:   true,
		labels:  labels{r.shared(s.Project), r.shared(s.Repo), r.shared(s.Kind), r.shared(s.Issue)},
		first:   s.First.Unix(),
		last:    s.Last.Unix(),
		amounts: amountsOf(&s.TaskSums),
	}
	for _, m := range s.Models {
		name := m.Model
		if name != "" {
			name = r.shared(r.canonical(name))
		}
		p.models = addModels(p.models, []Model{{name, m.Cost, m.Tokens}})
	}
	slices.SortFunc(p.models, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	for _, run := range s.Runs {
		p.runs = append(p.runs, r.shared(run))
	}
	slices.Sort(p.runs)
	for _, a := range s.Agents {
		p.agents = append(p.agents, sessionAgent{r.shared(a.Session), r.shared(a.Agent)})
	}
	slices.SortFunc(p.agents, compareAgents)
	return p
}

func (r *reader) turns(s *clickhouse.TaskTurns) *Turns {
	t := &Turns{Last: s.Last, LastResult: r.shared(s.LastResult), ByResult: make([]TurnResult, len(s.Results))}
	for i, x := range s.Results {
		t.Count += x.Turns
		t.ByResult[i] = TurnResult{r.shared(x.Result), x.Turns}
	}
	return t
}

func compareAgents(a, b sessionAgent) int {
	return cmp.Or(strings.Compare(a.session, b.session), strings.Compare(a.agent, b.agent))
}

func (p *piece) equal(o *piece) bool {
	return p.spent == o.spent && p.labels == o.labels && p.first == o.first && p.last == o.last && p.amounts == o.amounts &&
		slices.Equal(p.models, o.models) && slices.Equal(p.runs, o.runs) && slices.Equal(p.agents, o.agents) &&
		p.turns.equal(o.turns)
}

// plus is the piece of both segments together; o is the later one.
func (p *piece) plus(o *piece) *piece {
	var sum piece
	switch {
	case p.spent && o.spent:
		sum = p.plusSpend(o)
	case p.spent:
		sum = *p
	default:
		sum = *o
	}
	sum.turns = p.turns.plus(o.turns)
	return &sum
}

func (p *piece) plusSpend(o *piece) piece {
	sum := piece{spent: true, labels: o.labels, first: p.first, last: o.last, amounts: p.amounts}
	sum.amounts.add(&o.amounts)
	sum.models = addModels(slices.Clone(p.models), o.models)
	slices.SortFunc(sum.models, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	sum.runs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.runs, o.runs))))
	agents := slices.Concat(p.agents, o.agents)
	slices.SortFunc(agents, compareAgents)
	sum.agents = slices.Compact(agents)
	return sum
}
