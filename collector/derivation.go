package collector

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// derivation works out what follows from a batch whose facts are stored. It
// reads the store after the facts were written, so of two replicas that write
// related facts at once at least one sees both.
type derivation struct {
	ledger   Ledger
	deriver  *derive.Deriver
	guard    *guard
	counters *counterCache
	window   time.Duration // in which a caller-given id counts once

	links     links
	out       clickhouse.Derived
	conflicts int

	// pushed are the runs whose pushes were derived, and fingerprints the
	// digests of their facts, and of their sessions', from before these were read.
	pushed       []string
	fingerprints map[string]uint64
}

// set is a set of non-empty strings.
type set map[string]struct{}

func (s set) add(v string) {
	if v != "" {
		s[v] = struct{}{}
	}
}

func (s set) list() []string { return slices.Sorted(maps.Keys(s)) }

// scope is what a batch of facts touches.
type scope struct {
	runs     set
	sessions set // of events that name no run
	linked   set // runs that are linked anew
}

// addEvents widens the scope by the run, or the session, of events.
func (s *scope) addEvents(events []usage.Event) {
	for i := range events {
		l := &events[i].Labels
		s.runs.add(l.Run)
		if l.Run == "" {
			s.sessions.add(l.Session)
		}
	}
}

func scopeOf(f *usage.Facts) scope {
	s := scope{set{}, set{}, set{}}
	s.addEvents(f.Events)
	for i := range f.Samples {
		s.runs.add(f.Samples[i].Run)
	}
	for _, e := range f.Ends {
		s.runs.add(e.Run)
	}
	for _, l := range f.Links {
		s.runs.add(l.Run)
		s.linked.add(l.Run)
	}
	return s
}

// batch derives everything that a batch of stored facts changes.
func (d *derivation) batch(ctx context.Context, id uint64, f *usage.Facts) error {
	var err error
	if d.out.Version, err = d.ledger.Clock(ctx); err != nil {
		return err
	}
	in := scopeOf(f)
	disputed, err := d.contested(ctx, id, f.Events, &in)
	if err != nil {
		return err
	}
	if err := d.loadLinks(ctx, in.runs, in.sessions); err != nil {
		return err
	}
	if len(in.linked) > 0 {
		if err := d.relinkContested(ctx, disputed, &in); err != nil {
			return err
		}
	}
	if err := d.settle(ctx, disputed); err != nil {
		return err
	}
	d.events(f.Events, disputed)
	if len(in.linked) > 0 {
		if err := d.relink(ctx, disputed, in.linked); err != nil {
			return err
		}
	}
	if err := d.guard.fold(ctx, visitCharges(d.out.Charges)); err != nil {
		return err
	}
	for s := range in.sessions {
		for _, l := range d.links.bySession[s] {
			in.runs.add(l.Run)
		}
	}
	return d.pushes(ctx, in.runs.list())
}

// again derives the pushes of runs anew.
func (d *derivation) again(ctx context.Context, runs []string) error {
	var err error
	if d.out.Version, err = d.ledger.Clock(ctx); err != nil {
		return err
	}
	of := set{}
	for _, run := range runs {
		of.add(run)
	}
	if err := d.loadLinks(ctx, of, set{}); err != nil {
		return err
	}
	return d.pushes(ctx, runs)
}

// loadLinks reads the links of runs and sessions, then those of every session
// that one of these names, since another run may claim it, and then all links
// of the runs found so: only a run's latest counts.
func (d *derivation) loadLinks(ctx context.Context, runs, sessions set) error {
	all, err := d.ledger.Links(ctx, runs.list(), sessions.list())
	if err != nil {
		return err
	}
	named := set{}
	for _, l := range all {
		named.add(l.Session)
	}
	claims, err := d.ledger.Links(ctx, nil, named.list())
	if err != nil {
		return err
	}
	found := set{}
	for _, l := range append(claims, all...) {
		found.add(l.Run)
	}
	of, err := d.ledger.Links(ctx, found.list(), nil)
	d.links = newLinks(of)
	return err
}

// events derives the charges of a batch's events but the disputed ones.
func (d *derivation) events(events []usage.Event, disputed map[usage.ID][]usage.Event) {
	d.out.Charges = slices.Grow(d.out.Charges, len(events))
	for i := range events {
		if e := &events[i]; len(disputed) == 0 || disputed[e.ID] == nil {
			d.out.Charges = append(d.out.Charges, d.deriver.Event(e, d.links.of(e)))
		}
	}
}

// buckets are those in which the derivation writes charges or activity.
func (d *derivation) buckets() []time.Time {
	seen := map[time.Time]struct{}{}
	for _, rows := range [][]usage.Charge{d.out.Charges, d.out.GoneCharges} {
		for i := range rows {
			seen[rows[i].Bucket()] = struct{}{}
		}
	}
	for _, rows := range [][]usage.Activity{d.out.Activity, d.out.GoneActivity} {
		for i := range rows {
			seen[rows[i].Bucket()] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), time.Time.Compare)
}

// chargeKey is the identity under which a charge, or an activity, replaces
// another.
type chargeKey struct {
	bucket int64
	run    string
	id     usage.ID
}

func keyOf(c *usage.Charge) chargeKey {
	return chargeKey{c.Bucket().Unix(), c.FactRun, c.ID}
}

func activityKey(a *usage.Activity) chargeKey {
	return chargeKey{a.Bucket().Unix(), a.FactRun, a.ID}
}
