package collector

import (
	"context"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// contested returns, by id, all events ever stored under those ids of a batch
// that came with several contents. Only an id that a caller gave can: one that
// follows from the content cannot. The scope is widened by these events: whose
// call loses its id, lets go of the pushes that it covered.
func (d *derivation) contested(ctx context.Context, batch uint64, events []usage.Event, in *scope) (map[usage.ID][]usage.Event, error) {
	out := map[usage.ID][]usage.Event{}
	var since time.Time
	for i := range events {
		if e := &events[i]; e.SourceID != "" && (since.IsZero() || e.Arrived.Before(since)) {
			since = e.Arrived
		}
	}
	if since.IsZero() {
		return out, nil
	}
	ids, err := d.ledger.Contested(ctx, batch, since.Add(-d.window))
	if err != nil {
		return nil, err
	}
	return out, d.loadContested(ctx, ids, out, in)
}

// relinkContested adds the contested events of runs that are linked anew, and
// of the sessions that they are or were linked to.
func (d *derivation) relinkContested(ctx context.Context, disputed map[usage.ID][]usage.Event, in *scope) error {
	ids, err := d.ledger.ContestedOf(ctx, in.linked.list(), d.links.everNamed(in.linked).list())
	if err != nil || len(ids) == 0 {
		return err
	}
	if err := d.loadContested(ctx, ids, disputed, in); err != nil {
		return err
	}
	return d.loadLinks(ctx, in.runs, in.sessions)
}

func (d *derivation) loadContested(ctx context.Context, ids []usage.ID, to map[usage.ID][]usage.Event, in *scope) error {
	var missing []usage.ID
	for _, id := range ids {
		if to[id] == nil {
			missing = append(missing, id)
		}
	}
	events, err := d.ledger.EventsByID(ctx, missing)
	if err != nil {
		return err
	}
	for _, e := range events {
		to[e.ID] = append(to[e.ID], e)
	}
	in.addEvents(events)
	return nil
}

// settle resolves disputes over their whole history: the charges of winners
// are written, those of losers withdrawn, and the standing of each is kept.
func (d *derivation) settle(ctx context.Context, disputed map[usage.ID][]usage.Event) error {
	var standing []clickhouse.Dispute
	for _, same := range disputed {
		winners, losers := derive.Resolve(same, d.window)
		d.conflicts += len(losers)
		for i := range winners {
			e := &winners[i]
			d.out.Charges = append(d.out.Charges, d.deriver.Event(e, d.links.of(e)))
			standing = append(standing, clickhouse.Dispute{ID: e.ID, Content: e.Content})
		}
		for i := range losers {
			e := &losers[i]
			d.out.GoneCharges = append(d.out.GoneCharges, d.deriver.Event(e, d.links.of(e)))
			standing = append(standing, clickhouse.Dispute{ID: e.ID, Content: e.Content, Lost: true})
		}
	}
	return d.ledger.AppendDisputes(ctx, d.out.Version, standing)
}

// relink derives the stored events of linked runs, and of every session that
// they are or were linked to, anew.
func (d *derivation) relink(ctx context.Context, disputed map[usage.ID][]usage.Event, linked set) error {
	done := map[usage.ID]bool{} // by content
	for i := range d.out.Charges {
		done[d.out.Charges[i].ID] = true
	}
	return d.ledger.Events(ctx, linked.list(), d.links.everNamed(linked).list(), func(events []usage.Event) error {
		for i := range events {
			e := &events[i]
			if !done[e.Content] && disputed[e.ID] == nil {
				done[e.Content] = true
				d.out.Charges = append(d.out.Charges, d.deriver.Event(e, d.links.of(e)))
			}
		}
		return nil
	})
}
