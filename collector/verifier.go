package collector

import (
	"context"
	"fmt"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// VerifyLedger is what the verifier reads of the store.
type VerifyLedger interface {
	Ledger
	FactHours(ctx context.Context) ([]time.Time, error)
	PushedRunsAfter(ctx context.Context, after string, limit int) ([]string, error)
	ContestedEvents(ctx context.Context) ([]usage.Event, error)
	AllLinks(ctx context.Context) ([]usage.Link, error)
	EventsBetween(ctx context.Context, from, to time.Time, use func([]usage.Event) error) error
	ChargesBetween(ctx context.Context, from, to time.Time) ([]usage.Charge, error)
	GrainDifferences(ctx context.Context) ([]clickhouse.GrainSum, error)
}

// Difference is one way in which the ledger is not what its facts say.
type Difference struct {
	What   string `json:"what"`           // missing, stray, differs or sum
	Where  string `json:"where"`          // run, hour or bucket
	ID     string `json:"id,omitempty"`   // of the charge
	Want   string `json:"want,omitempty"` // what follows from the facts
	Stored string `json:"stored,omitempty"`
}

// Verification is the outcome of a verification.
type Verification struct {
	Events      int          `json:"events"`
	Runs        int          `json:"runs"`
	Charges     int          `json:"charges"`
	Differences []Difference `json:"differences"`
	// Reused are ids that callers gave to several calls, further apart than
	// the conflict window: all of them count.
	Reused []string `json:"reused_ids"`
}

// Verifier recomputes the ledger from its facts. It only reads.
type Verifier struct {
	ledger  VerifyLedger
	deriver *derive.Deriver
	window  time.Duration
	// settle is how long a difference may be a write in progress.
	settle   time.Duration
	progress func(done, total int)

	labels []boundedLabel
	known  map[string]map[string]bool
	links  links
	losers map[usage.ID]bool // by content
	out    Verification
}

// NewVerifier returns a verifier. progress is told of hours and runs done.
func NewVerifier(ledger VerifyLedger, deriver *derive.Deriver, window time.Duration, progress func(done, total int)) *Verifier {
	return &Verifier{ledger: ledger, deriver: deriver, window: window, settle: 2 * time.Second, progress: progress}
}

// Run recomputes everything and returns the differences. Facts that come in
// meanwhile are no difference: what differs is looked at again before it is
// reported.
func (v *Verifier) Run(ctx context.Context) (*Verification, error) {
	v.out.Differences = []Difference{}
	v.out.Reused = []string{}
	all, err := v.ledger.AllLinks(ctx)
	if err != nil {
		return nil, err
	}
	v.links = newLinks(all)
	v.labels = LabelBounds{}.labels()
	if v.known, err = knownLabels(ctx, v.ledger, v.labels); err != nil {
		return nil, err
	}
	if err := v.contested(ctx); err != nil {
		return nil, err
	}
	if err := v.events(ctx); err != nil {
		return nil, err
	}
	if err := v.pushes(ctx); err != nil {
		return nil, err
	}
	err = v.twice(ctx, v.grains)
	return &v.out, err
}

// contested finds the events that lost their id to another.
func (v *Verifier) contested(ctx context.Context) error {
	events, err := v.ledger.ContestedEvents(ctx)
	if err != nil {
		return err
	}
	byID := map[usage.ID][]usage.Event{}
	for _, e := range events {
		byID[e.ID] = append(byID[e.ID], e)
	}
	v.losers = map[usage.ID]bool{}
	for _, same := range byID {
		winners, losers := derive.Resolve(same, v.window)
		for _, e := range losers {
			v.losers[e.Content] = true
		}
		if len(winners) > 1 {
			v.out.Reused = append(v.out.Reused, winners[0].SourceID)
		}
	}
	return nil
}

// twice runs check, and if it finds a difference, once more after a pause:
// only what it finds then stands.
func (v *Verifier) twice(ctx context.Context, check func(context.Context) ([]Difference, error)) error {
	found, err := check(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(v.settle):
	}
	found, err = check(ctx)
	v.out.Differences = append(v.out.Differences, found...)
	return err
}

func (v *Verifier) events(ctx context.Context) error {
	hours, err := v.ledger.FactHours(ctx)
	if err != nil {
		return err
	}
	for i, hour := range hours {
		err := v.twice(ctx, func(ctx context.Context) ([]Difference, error) { return v.hour(ctx, hour) })
		if err != nil {
			return err
		}
		v.progress(i+1, len(hours))
	}
	return nil
}

func (v *Verifier) hour(ctx context.Context, hour time.Time) ([]Difference, error) {
	want := map[chargeKey]usage.Charge{}
	err := v.ledger.EventsBetween(ctx, hour, hour.Add(time.Hour), func(events []usage.Event) error {
		for i := range events {
			e := &events[i]
			if v.losers[e.Content] {
				continue
			}
			c := v.deriver.Event(e, v.links.of(e))
			foldLabels(v.labels, v.known, &c.Labels)
			want[keyOf(&c)] = c
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	have, err := v.ledger.ChargesBetween(ctx, hour, hour.Add(time.Hour))
	if err != nil {
		return nil, err
	}
	v.out.Events += len(want)
	stored := have[:0]
	for _, c := range have {
		if c.Feed != usage.FeedPush {
			stored = append(stored, c)
		}
	}
	list := make([]usage.Charge, 0, len(want))
	for _, c := range want {
		list = append(list, c)
	}
	v.out.Charges += len(stored)
	return compare(hour.Format(time.RFC3339), list, stored), nil
}

// compare lists what differs between what follows from the facts and what is
// stored.
func compare(where string, want, have []usage.Charge) []Difference {
	var out []Difference
	stored := make(map[chargeKey]usage.Charge, len(have))
	for i := range have {
		stored[keyOf(&have[i])] = have[i]
	}
	write, gone := differ(want, have, keyOf)
	for i := range write {
		d := Difference{What: "missing", Where: where, ID: write[i].ID.String(), Want: describe(&write[i])}
		if old, ok := stored[keyOf(&write[i])]; ok {
			d.What, d.Stored = "differs", describe(&old)
		}
		out = append(out, d)
	}
	for i := range gone {
		out = append(out, Difference{What: "stray", Where: where, ID: gone[i].ID.String(), Stored: describe(&gone[i])})
	}
	return out
}

func describe(c *usage.Charge) string {
	cost := "unpriced"
	if c.Cost.Valid {
		cost = "$" + c.Cost.Nano.String()
	}
	return fmt.Sprintf("%s %s, %d tokens, counted %v, %s, %s/%s/%s/%s", c.Time.Format(time.RFC3339Nano), cost,
		c.Tokens.Total(), c.Counted, c.PriceRow, c.Labels.Project, c.Labels.Kind, c.Labels.Task, c.Labels.Model)
}

// verifyRuns is how many runs are derived at once.
const verifyRuns = 200

func (v *Verifier) pushes(ctx context.Context) error {
	after, done := "", 0
	for {
		runs, err := v.ledger.PushedRunsAfter(ctx, after, verifyRuns)
		if err != nil || len(runs) == 0 {
			return err
		}
		if err := v.twice(ctx, func(ctx context.Context) ([]Difference, error) { return v.runs(ctx, runs) }); err != nil {
			return err
		}
		after, done = runs[len(runs)-1], done+len(runs)
		v.out.Runs = done
		v.progress(done, done)
	}
}

func (v *Verifier) runs(ctx context.Context, runs []string) ([]Difference, error) {
	d := &derivation{ledger: v.ledger, deriver: v.deriver, counters: newCounterCache(), window: v.window, links: v.links}
	want, err := d.wanted(ctx, runs)
	if err != nil {
		return nil, err
	}
	visitRun(&want.Run, nil)(func(l *usage.Labels) { foldLabels(v.labels, v.known, l) })
	have, err := v.ledger.PushedCharges(ctx, runs, time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	activity, err := v.ledger.PushedActivity(ctx, runs, time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	v.out.Charges += len(have)
	out := compare("pushes", want.Charges, have)
	write, gone := differ(want.Activity, activity, activityKey)
	for _, a := range write {
		out = append(out, Difference{What: "missing", Where: "activity of " + a.FactRun, ID: a.ID.String(), Want: fmt.Sprintf("%s %d", a.Name, a.Count)})
	}
	for _, a := range gone {
		out = append(out, Difference{What: "stray", Where: "activity of " + a.FactRun, ID: a.ID.String(), Stored: fmt.Sprintf("%s %d", a.Name, a.Count)})
	}
	return out, nil
}

func (v *Verifier) grains(ctx context.Context) ([]Difference, error) {
	sums, err := v.ledger.GrainDifferences(ctx)
	if err != nil {
		return nil, err
	}
	var out []Difference
	for _, s := range sums {
		out = append(out, Difference{
			What: "sum", Where: string(s.Grain) + " of " + s.Time.Format(time.RFC3339),
			Want: s.Charges, Stored: s.Rollup,
		})
	}
	return out, nil
}
