package fleet

import (
	"cmp"
	"maps"
	"slices"

	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// stranger says what a run is of which nothing is known.
type stranger int

const (
	// forgotten: what is older than the cutoff was counted and then forgotten.
	forgotten stranger = iota
	// unread: nothing was ever counted, and what is older than the cutoff is no
	// news to whoever reads the counters.
	unread
)

// count compares runs with what was counted of them. Of each amount of a run, no
// more is counted than the ledger ever had at once: a total that falls changes
// nothing until it is exceeded, and labels that change move nothing. What is new
// goes to the labels that grew.
func count(pushed []clickhouse.Pushed, known map[string]store.FleetRun, unknown stranger) ([]store.FleetRun, []store.FleetIncrease) {
	var runs []store.FleetRun
	rises := map[store.FleetKey]store.FleetIncrease{}
	for i := range pushed {
		p := &pushed[i]
		old, found := known[p.Run]
		if !found && unknown == forgotten {
			old = before(p)
		}
		now := store.FleetRun{Run: p.Run, High: old.High, Parts: map[store.FleetLabels]store.FleetAmounts{}, LastCharge: p.LastCharge}
		for l, part := range p.Parts {
			now.Parts[l] = part.All
		}
		if found && maps.Equal(old.Parts, now.Parts) && !now.LastCharge.After(old.LastCharge) {
			continue
		}
		if old.LastCharge.After(now.LastCharge) {
			now.LastCharge = old.LastCharge
		}
		labels := slices.SortedFunc(maps.Keys(p.Parts), compareLabels)
		for a := range store.FleetAmount(store.FleetAmountCount) {
			left := max(total(now.Parts, a)-old.High[a], 0)
			now.High[a] += left
			for _, l := range labels {
				by := min(left, now.Parts[l][a]-old.Parts[l][a])
				if by <= 0 {
					continue
				}
				left -= by
				past := int64(0)
				if !found && unknown == unread {
					past = p.Parts[l].Old[a]
				}
				raise(rises, store.FleetKey{Amount: a, FleetLabels: l}, by, past)
			}
		}
		runs = append(runs, now)
	}
	return runs, slices.Collect(maps.Values(rises))
}

// before is what was counted of a run that was forgotten.
func before(p *clickhouse.Pushed) store.FleetRun {
	r := store.FleetRun{Parts: map[store.FleetLabels]store.FleetAmounts{}}
	for l, part := range p.Parts {
		r.Parts[l] = part.Old
		for a, n := range part.Old {
			r.High[a] += n
		}
	}
	return r
}

func raise(rises map[store.FleetKey]store.FleetIncrease, k store.FleetKey, by, past int64) {
	if k.Amount == store.FleetCost {
		k.Model = "" // as the wrappers push it
	}
	r := rises[k]
	r.FleetKey, r.Value, r.Past = k, r.Value+by, r.Past+past
	rises[k] = r
}

func total(parts map[store.FleetLabels]store.FleetAmounts, a store.FleetAmount) int64 {
	var sum int64
	for _, p := range parts {
		sum += p[a]
	}
	return sum
}

func compareLabels(a, b store.FleetLabels) int {
	return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Repo, b.Repo), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Model, b.Model))
}
