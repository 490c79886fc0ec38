package collector

import (
	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// links are all links of some runs and sessions. Only the latest link of a run
// counts.
type links struct {
	byRun     map[string][]usage.Link
	bySession map[string][]usage.Link
}

func newLinks(all []usage.Link) links {
	l := links{map[string][]usage.Link{}, map[string][]usage.Link{}}
	for _, link := range all {
		l.byRun[link.Run] = append(l.byRun[link.Run], link)
	}
	for _, of := range l.byRun {
		if latest := derive.LatestLink(of); latest.Session != "" {
			l.bySession[latest.Session] = append(l.bySession[latest.Session], *latest)
		}
	}
	return l
}

// of is the link that fills an event's labels: that of its run, or, if it
// names none, of its session.
func (l *links) of(e *usage.Event) *usage.Link {
	if e.Labels.Run != "" {
		return derive.LatestLink(l.byRun[e.Labels.Run])
	}
	if e.Labels.Session != "" {
		return l.ofSession(e.Labels.Session)
	}
	return nil
}

// everNamed are the sessions that any link of the runs names, or named.
func (l *links) everNamed(runs set) set {
	out := set{}
	for run := range runs {
		for _, link := range l.byRun[run] {
			out.add(link.Session)
		}
	}
	return out
}

// ofSession is the latest link that names a session; a resumed session has
// several runs, and the last to be linked is the one that speaks.
func (l *links) ofSession(session string) *usage.Link {
	return derive.LatestLink(l.bySession[session])
}

// sessionsOf are the sessions that the runs are linked to.
func (l *links) sessionsOf(runs []string) []string {
	out := set{}
	for _, run := range runs {
		if link := derive.LatestLink(l.byRun[run]); link != nil {
			out.add(link.Session)
		}
	}
	return out.list()
}
