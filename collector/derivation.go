package collector

import (
	"context"
	"maps"
	"reflect"
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

	links links
	out   clickhouse.Derived

	// runs are those whose pushes were derived, with the digest of their facts
	// before they were read.
	runs, sessions []string
	fingerprints   map[string]uint64
	conflicts      int
}

// set is a set of non-empty strings.
type set map[string]struct{}

func (s set) add(v string) {
	if v != "" {
		s[v] = struct{}{}
	}
}

func (s set) list() []string { return slices.Sorted(maps.Keys(s)) }

// batch derives everything that a batch of stored facts changes.
func (d *derivation) batch(ctx context.Context, id uint64, f *usage.Facts) error {
	version, err := d.ledger.Clock(ctx)
	if err != nil {
		return err
	}
	d.out.Version = version
	runs, sessions, linked := touched(f)
	if err := d.loadLinks(ctx, runs, sessions); err != nil {
		return err
	}
	if err := d.events(ctx, id, f.Events); err != nil {
		return err
	}
	if len(linked) > 0 {
		if err := d.relink(ctx, linked); err != nil {
			return err
		}
	}
	if err := d.guard.fold(ctx, visitCharges(d.out.Charges)); err != nil {
		return err
	}
	for s := range sessions {
		if l := d.links.ofSession(s); l != nil {
			runs.add(l.Run)
		}
	}
	return d.pushes(ctx, runs.list())
}

// again derives the pushes of runs anew.
func (d *derivation) again(ctx context.Context, runs []string) error {
	version, err := d.ledger.Clock(ctx)
	if err != nil {
		return err
	}
	d.out.Version = version
	of := set{}
	for _, run := range runs {
		of.add(run)
	}
	if err := d.loadLinks(ctx, of, set{}); err != nil {
		return err
	}
	return d.pushes(ctx, runs)
}

// touched are the runs and sessions that facts speak of, and the runs that are
// linked anew.
func touched(f *usage.Facts) (runs, sessions, linked set) {
	runs, sessions, linked = set{}, set{}, set{}
	for i := range f.Events {
		l := &f.Events[i].Labels
		runs.add(l.Run)
		if l.Run == "" {
			sessions.add(l.Session)
		}
	}
	for i := range f.Samples {
		runs.add(f.Samples[i].Run)
	}
	for _, e := range f.Ends {
		runs.add(e.Run)
	}
	for _, l := range f.Links {
		runs.add(l.Run)
		linked.add(l.Run)
	}
	return runs, sessions, linked
}

// loadLinks reads the links of runs and sessions, then those of every session
// that one of these names: a run that is linked anew may let go of a session,
// and another run may claim it.
func (d *derivation) loadLinks(ctx context.Context, runs, sessions set) error {
	all, err := d.ledger.Links(ctx, runs.list(), sessions.list())
	if err != nil {
		return err
	}
	more := set{}
	for _, l := range all {
		more.add(l.Session)
	}
	if len(more) > 0 {
		again, err := d.ledger.Links(ctx, nil, more.list())
		if err != nil {
			return err
		}
		all = append(all, again...)
	}
	d.links = newLinks(all)
	return nil
}

// events derives the charges of a batch's events. An event under an id that
// came with other content within the window is a conflict: the first arrival
// wins and the charge of the other, if it was written, goes.
func (d *derivation) events(ctx context.Context, batch uint64, events []usage.Event) error {
	if len(events) == 0 {
		return nil
	}
	disputed, err := d.disputed(ctx, batch, events)
	if err != nil {
		return err
	}
	d.out.Charges = slices.Grow(d.out.Charges, len(events))
	for i := range events {
		e := &events[i]
		if len(disputed) > 0 && disputed[e.ID] != nil {
			continue
		}
		d.out.Charges = append(d.out.Charges, d.deriver.Event(e, d.links.of(e)))
	}
	for _, same := range disputed {
		d.dispute(same)
	}
	return nil
}

// disputed are the stored events, by id, of those ids of the batch that came
// with several contents. Only an id that a caller gave can: one that follows
// from the content cannot.
func (d *derivation) disputed(ctx context.Context, batch uint64, events []usage.Event) (map[usage.ID][]usage.Event, error) {
	var since time.Time
	for i := range events {
		if e := &events[i]; e.SourceID != "" && (since.IsZero() || e.Arrived.Before(since)) {
			since = e.Arrived
		}
	}
	if since.IsZero() {
		return nil, nil
	}
	stored, err := d.ledger.Conflicts(ctx, batch, since.Add(-d.window))
	if err != nil {
		return nil, err
	}
	out := map[usage.ID][]usage.Event{}
	for _, e := range stored {
		out[e.ID] = append(out[e.ID], e)
	}
	return out, nil
}

func (d *derivation) dispute(same []usage.Event) {
	winners, losers := derive.Resolve(same, d.window)
	d.conflicts += len(losers)
	kept := map[chargeKey]bool{}
	for i := range winners {
		c := d.deriver.Event(&winners[i], d.links.of(&winners[i]))
		kept[keyOf(&c)] = true
		d.out.Charges = append(d.out.Charges, c)
	}
	for i := range losers {
		c := d.deriver.Event(&losers[i], d.links.of(&losers[i]))
		if k := keyOf(&c); !kept[k] {
			kept[k] = true
			d.out.GoneCharges = append(d.out.GoneCharges, c)
		}
	}
}

// chargeKey is the identity under which a charge replaces another.
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

// relink derives the stored events of linked runs, and of every session that
// they are or were linked to, anew.
func (d *derivation) relink(ctx context.Context, linked set) error {
	sessions := set{}
	for run := range linked {
		for _, l := range d.links.byRun[run] {
			sessions.add(l.Session)
		}
	}
	done := map[usage.ID]bool{}
	for i := range d.out.Charges {
		done[d.out.Charges[i].ID] = true
	}
	for i := range d.out.GoneCharges {
		done[d.out.GoneCharges[i].ID] = true
	}
	byID := map[usage.ID][]usage.Event{}
	err := d.ledger.Events(ctx, linked.list(), sessions.list(), d.window, func(events []usage.Event) error {
		for _, e := range events {
			if !done[e.ID] {
				byID[e.ID] = append(byID[e.ID], e)
			}
		}
		return nil
	})
	for _, same := range byID {
		winners, _ := derive.Resolve(same, d.window)
		for i := range winners {
			d.out.Charges = append(d.out.Charges, d.deriver.Event(&winners[i], d.links.of(&winners[i])))
		}
	}
	return err
}

// pushes derives the pushes of those of the runs that have any, and compares
// with what is stored: only differences are written.
func (d *derivation) pushes(ctx context.Context, runs []string) error {
	// Most runs have no pushes, and what follows reads more than an index. A
	// run that gets its first sample after this is derived by that sample's
	// writer, which sees all that is stored by now.
	runs, err := d.ledger.SampledRuns(ctx, runs)
	if err != nil || len(runs) == 0 {
		return err
	}
	d.sessions = d.links.sessionsOf(runs)
	if d.fingerprints, err = d.ledger.Fingerprints(ctx, runs, d.sessions); err != nil {
		return err
	}
	want, err := d.wantedPushes(ctx, runs)
	if err != nil || len(d.runs) == 0 {
		return err
	}
	if err := d.guard.fold(ctx, visitRun(&want, d.out.Summaries)); err != nil {
		return err
	}
	return d.difference(ctx, want)
}

// wantedPushes derives what should be stored of the pushes of runs. It sets
// d.runs to those that have any.
func (d *derivation) wantedPushes(ctx context.Context, runs []string) (derive.Run, error) {
	var want derive.Run
	samples, err := d.counters.samples(ctx, d.ledger, runs)
	if err != nil {
		return want, err
	}
	if d.runs = slices.Sorted(maps.Keys(samples)); len(d.runs) == 0 {
		return want, nil
	}
	ends, err := d.ledger.Ends(ctx, d.runs)
	if err != nil {
		return want, err
	}
	byRun, bySession, err := d.ledger.CalledModels(ctx, d.runs, d.sessions)
	if err != nil {
		return want, err
	}
	for _, run := range d.runs {
		f := derive.RunFacts{Run: run, Samples: samples[run], Ends: ends[run], Covered: map[string]bool{}}
		f.Link = derive.LatestLink(d.links.byRun[run])
		covered := byRun[run]
		if f.Link != nil && f.Link.Session != "" && d.links.ofSession(f.Link.Session).Run == run {
			covered = append(covered, bySession[f.Link.Session]...)
		}
		for _, model := range covered {
			f.Covered[model] = true
		}
		r := d.deriver.Run(f)
		want.Charges = append(want.Charges, r.Charges...)
		want.Activity = append(want.Activity, r.Activity...)
		d.out.Summaries = append(d.out.Summaries, r.Summary)
	}
	return want, nil
}

// difference adds to the output what of want is not stored yet, and what is
// stored and not wanted any more.
func (d *derivation) difference(ctx context.Context, want derive.Run) error {
	from := d.out.Summaries[0].FirstSeen
	for _, s := range d.out.Summaries {
		if s.FirstSeen.Before(from) {
			from = s.FirstSeen
		}
	}
	charges, err := d.ledger.PushedCharges(ctx, d.runs, from)
	if err != nil {
		return err
	}
	activity, err := d.ledger.PushedActivity(ctx, d.runs, from)
	if err != nil {
		return err
	}
	write, gone := differ(want.Charges, charges, keyOf)
	d.out.Charges, d.out.GoneCharges = append(d.out.Charges, write...), append(d.out.GoneCharges, gone...)
	d.out.Activity, d.out.GoneActivity = differ(want.Activity, activity, activityKey)
	return nil
}

// differ returns what of want is not in have, and what of have has no
// counterpart in want.
func differ[T any](want, have []T, key func(*T) chargeKey) (write, gone []T) {
	stored := make(map[chargeKey]*T, len(have))
	for i := range have {
		stored[key(&have[i])] = &have[i]
	}
	for i := range want {
		k := key(&want[i])
		if old, ok := stored[k]; !ok || !reflect.DeepEqual(*old, want[i]) {
			write = append(write, want[i])
		}
		delete(stored, k)
	}
	for _, old := range stored {
		gone = append(gone, *old)
	}
	return write, gone
}

// buckets are those in which the derivation writes rows of charges.
func (d *derivation) buckets() []time.Time {
	seen := map[time.Time]struct{}{}
	for _, rows := range [][]usage.Charge{d.out.Charges, d.out.GoneCharges} {
		for i := range rows {
			seen[rows[i].Bucket()] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), time.Time.Compare)
}

// stale returns the runs about which a fact came in while they were derived.
func (d *derivation) stale(ctx context.Context) ([]string, error) {
	if len(d.runs) == 0 {
		return nil, nil
	}
	now, err := d.ledger.Fingerprints(ctx, d.runs, d.sessions)
	if err != nil {
		return nil, err
	}
	sessionsMoved := false
	for _, s := range d.sessions {
		k := "session " + s
		sessionsMoved = sessionsMoved || now[k] != d.fingerprints[k]
	}
	var out []string
	for _, run := range d.runs {
		if sessionsMoved || now[run] != d.fingerprints[run] {
			out = append(out, run)
		}
	}
	return out, nil
}
