package tasks

import (
	"slices"
	"time"
)

// summer computes figures. What it keeps is only memory to use again.
type summer struct {
	runs   []string
	agents []sessionAgent
}

// task computes the figures of a task whose current bucket is current; nil if it
// spent nothing.
func (s *summer) task(e *entry, current int64) *Task {
	first, latest := e.spent()
	if first == nil {
		return nil
	}
	t := &Task{
		Name: e.name, Project: latest.project, Repo: latest.repo, Kind: latest.kind, Issue: latest.issue,
		FirstSpend: time.Unix(first.first, 0).UTC(),
		LastSpend:  time.Unix(latest.last, 0).UTC().Add(bucket),
	}
	for i := range e.pieces {
		t.Total.add(&e.pieces[i].amounts)
		t.Models = addModels(t.Models, e.pieces[i].models)
		t.Turns.add(e.pieces[i].turns)
	}
	sortModels(t.Models)
	if len(t.Models) > 0 {
		t.Model = t.Models[0].Name
	}
	from := len(e.pieces)
	for from > 0 && !e.pieces[from-1].day && e.pieces[from-1].start >= hourFrom(current) {
		from--
	}
	to := len(e.pieces)
	for to > from && e.pieces[to-1].start > current { // of a clock that is ahead
		to--
	}
	for i := range e.pieces[from:to] {
		t.Hour.add(&e.pieces[from+i].amounts)
	}
	t.Runs, t.HourRuns = s.distinctRuns(e.pieces), s.distinctRuns(e.pieces[from:to])
	t.Subagents = s.mostAgents(e.pieces)
	return t
}

func (s *summer) distinctRuns(pieces []placed) uint64 {
	if len(pieces) == 1 {
		return uint64(len(pieces[0].runs))
	}
	s.runs = s.runs[:0]
	for i := range pieces {
		s.runs = append(s.runs, pieces[i].runs...)
	}
	slices.Sort(s.runs)
	return uint64(len(slices.Compact(s.runs)))
}

// mostAgents is the largest number of distinct subagents in one session.
func (s *summer) mostAgents(pieces []placed) uint64 {
	s.agents = s.agents[:0]
	for i := range pieces {
		s.agents = append(s.agents, pieces[i].agents...)
	}
	slices.SortFunc(s.agents, compareAgents)
	most, n, session := uint64(0), uint64(0), ""
	for _, a := range slices.Compact(s.agents) {
		if a.session != session {
			n, session = 0, a.session
		}
		n++
		most = max(most, n)
	}
	return most
}
