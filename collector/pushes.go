package collector

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// runsPerQuery bounds how many runs are derived at once, and with them memory
// and the text of queries.
const runsPerQuery = 1000

// pushes derives the pushes of those of the runs that have any, and compares
// with what is stored: only differences are written.
func (d *derivation) pushes(ctx context.Context, runs []string) error {
	d.fingerprints = map[string]uint64{}
	for part := range slices.Chunk(runs, runsPerQuery) {
		// Most runs have no pushes, and what follows reads more than an index.
		// A run that gets its first sample after this is derived by that
		// sample's writer, which sees all that is stored by now.
		sampled, err := d.ledger.SampledRuns(ctx, part)
		if err != nil {
			return err
		}
		if len(sampled) == 0 {
			continue
		}
		if err := d.pushesOf(ctx, sampled); err != nil {
			return err
		}
	}
	return nil
}

func (d *derivation) pushesOf(ctx context.Context, runs []string) error {
	sessions := d.links.sessionsOf(runs)
	digests, err := d.ledger.Fingerprints(ctx, runs, sessions)
	if err != nil {
		return err
	}
	want, err := d.wanted(ctx, runs)
	if err != nil {
		return err
	}
	if err := d.guard.fold(ctx, visitRun(&want.Run, want.summaries)); err != nil {
		return err
	}
	d.pushed = append(d.pushed, runs...)
	maps.Copy(d.fingerprints, digests)
	d.out.Summaries = append(d.out.Summaries, want.summaries...)
	return d.difference(ctx, runs, want)
}

// wantedRuns is what should be stored of the pushes of some runs.
type wantedRuns struct {
	derive.Run
	summaries []usage.RunSummary
}

// wanted derives what should be stored of the pushes of runs. A session's calls
// cover every run that is linked to it: a resumed session has several.
func (d *derivation) wanted(ctx context.Context, runs []string) (wantedRuns, error) {
	var want wantedRuns
	samples, err := d.counters.samples(ctx, d.ledger, runs)
	if err != nil {
		return want, err
	}
	ends, err := d.ledger.Ends(ctx, runs)
	if err != nil {
		return want, err
	}
	byRun, bySession, err := d.ledger.CalledModels(ctx, runs, d.links.sessionsOf(runs))
	if err != nil {
		return want, err
	}
	for _, run := range slices.Sorted(maps.Keys(samples)) {
		f := derive.RunFacts{Run: run, Samples: samples[run], Ends: ends[run], Covered: map[string]bool{}}
		f.Link = derive.LatestLink(d.links.byRun[run])
		covered := byRun[run]
		if f.Link != nil && f.Link.Session != "" {
			covered = append(covered, bySession[f.Link.Session]...)
		}
		for _, model := range covered {
			f.Covered[d.deriver.Model(model)] = true
		}
		r := d.deriver.Run(f)
		want.Charges = append(want.Charges, r.Charges...)
		want.Activity = append(want.Activity, r.Activity...)
		want.summaries = append(want.summaries, r.Summary)
	}
	return want, nil
}

// difference adds to the output what of want is not stored yet, and what is
// stored and not wanted any more.
func (d *derivation) difference(ctx context.Context, runs []string, want wantedRuns) error {
	if len(want.summaries) == 0 {
		return nil
	}
	from := want.summaries[0].FirstSeen
	for _, s := range want.summaries {
		if s.FirstSeen.Before(from) {
			from = s.FirstSeen
		}
	}
	charges, err := d.ledger.PushedCharges(ctx, runs, from)
	if err != nil {
		return err
	}
	activity, err := d.ledger.PushedActivity(ctx, runs, from)
	if err != nil {
		return err
	}
	write, gone := differ(want.Charges, charges, keyOf)
	d.out.Charges, d.out.GoneCharges = append(d.out.Charges, write...), append(d.out.GoneCharges, gone...)
	more, less := differ(want.Activity, activity, activityKey)
	d.out.Activity, d.out.GoneActivity = append(d.out.Activity, more...), append(d.out.GoneActivity, less...)
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

// stale returns the runs about which a fact came in while they were derived.
func (d *derivation) stale(ctx context.Context) ([]string, error) {
	var out []string
	for part := range slices.Chunk(d.pushed, runsPerQuery) {
		sessions := d.links.sessionsOf(part)
		now, err := d.ledger.Fingerprints(ctx, part, sessions)
		if err != nil {
			return nil, err
		}
		moved := func(key string) bool { return now[key] != d.fingerprints[key] }
		bySession := slices.ContainsFunc(sessions, func(s string) bool { return moved("session " + s) })
		for _, run := range part {
			if bySession || moved(run) {
				out = append(out, run)
			}
		}
	}
	return out, nil
}
