package evaluate

import (
	"math"
	"math/bits"

	"github.com/szymonrychu/tatara-ledger/alerts"
	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/store"
)

// Why an alert was resolved.
const (
	becauseEnded  = "the task ended"
	becauseQuiet  = "the task went quiet"
	becauseRaised = "the ceiling was raised or lifted"
	becauseBelow  = "the value fell below the threshold"
)

// easing is the percent of an hourly threshold below which its alert resolves:
// at the threshold itself it would flap as buckets leave the hour.
const easing = 90

// judge compares how a task stands with its alerts, by id, and returns what is
// to change. silent tells that a task which is quiet was so while the ledger could
// be read: what was spent during an outage is known later. It is pure.
func judge(s *Standing, thresholds []int, silent bool, known map[store.AlertID]store.Alert) []store.AlertChange {
	j := judgement{s: s, silent: silent, known: known}
	if len(known) > 0 { // of most tasks nothing is: it would be half of the time
		j.seen = map[store.AlertID]bool{}
	}
	for _, d := range ceiling.Dimensions() {
		limit := s.Ceiling.Of(d)
		m := Measure{d, value(&s.Task, d), limit}
		for _, t := range thresholds {
			hold := limit.Value > 0 && m.Value > 0 && m.reached(t)
			if a := j.alert(d.Alert(), t); a.State == store.Firing && d.Scope() == "hour" {
				hold = eased(limit.Value, m.Value, t)
			}
			j.compare(d.Alert(), t, m.Value, limit.Value, hold, limit.Value == 0)
		}
	}
	priced := s.Ceiling.Of(ceiling.TaskCost).Value > 0
	unpriced := s.Total.UnpricedTokens
	j.compare(alerts.TaskUnpriced, 0, unpriced, 0, priced && unpriced > 0, !priced)
	// What fires by a threshold that is configured no more.
	for id, a := range known {
		if a.State == store.Firing && !j.seen[id] {
			j.resolve(id, a, becauseRaised)
		}
	}
	return j.changes
}

// eased reports whether a value is at easing percent of a threshold, or over:
// value × 100 × 100 ≥ limit × threshold × easing, exactly.
func eased(limit, value uint64, threshold int) bool {
	vh, vl := bits.Mul64(value, 100*100)
	th, tl := bits.Mul64(limit, uint64(threshold)*easing)
	return limit > 0 && (vh > th || vh == th && vl >= tl)
}

type judgement struct {
	s       *Standing
	silent  bool
	known   map[store.AlertID]store.Alert
	seen    map[store.AlertID]bool // nil: nothing is known
	changes []store.AlertChange
}

func (j *judgement) alert(name string, threshold int) store.Alert {
	return j.known[store.AlertID{Task: j.s.Name, Alert: name, Threshold: threshold}]
}

func (j *judgement) compare(name string, threshold int, value, limit uint64, hold, lifted bool) {
	id := store.AlertID{Task: j.s.Name, Alert: name, Threshold: threshold}
	if j.seen != nil {
		j.seen[id] = true
	}
	a := j.known[id]
	switch firing := a.State == store.Firing; {
	case firing && !j.s.Ended.IsZero():
		j.resolve(id, a, becauseEnded)
	case firing && j.s.Quiet && j.silent:
		j.resolve(id, a, becauseQuiet)
	case firing && !hold && (lifted || clamp(limit) > a.Limit):
		j.resolve(id, a, becauseRaised)
	case firing && !hold:
		j.resolve(id, a, becauseBelow)
	case !firing && hold && !j.s.Over():
		j.changes = append(j.changes, store.AlertChange{Seen: a.Episode, Alert: store.Alert{
			AlertID: id, TaskLabels: store.TaskLabels{Project: j.s.Project, Repo: j.s.Repo, Kind: j.s.Kind},
			State: store.Firing, Value: clamp(value), Limit: clamp(limit), AsOf: j.s.At,
		}})
	}
}

func (j *judgement) resolve(id store.AlertID, a store.Alert, reason string) {
	j.changes = append(j.changes, store.AlertChange{Seen: a.Episode, Alert: store.Alert{
		AlertID: id, State: store.Resolved, AsOf: j.s.At, Reason: reason,
	}})
}

// clamp is n, or the most that Postgres holds.
func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
