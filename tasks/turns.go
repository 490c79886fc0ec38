package tasks

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Turns are the turns of a task. Only pushes count them: where there are none,
// Count is 0, though there may have been turns.
type Turns struct {
	Count    uint64
	ByResult []TurnResult // sorted by result, sums up to Count; read only
	// Last is when the last turn ended, to the arrival of the push that told of
	// it, and LastResult how; of several results at once, the greatest. Zero: no
	// turn is known.
	Last       time.Time
	LastResult string
}

// TurnResult is how many turns ended in one way.
type TurnResult struct {
	Result string
	Count  uint64
}

// add adds turns, which may be nil. It changes the results of t in place, and
// keeps none of o's.
func (t *Turns) add(o *Turns) {
	if o == nil {
		return
	}
	t.Count += o.Count
	for _, r := range o.ByResult {
		i, found := slices.BinarySearchFunc(t.ByResult, r.Result, func(x TurnResult, name string) int { return strings.Compare(x.Result, name) })
		if found {
			t.ByResult[i].Count += r.Count
		} else {
			t.ByResult = slices.Insert(t.ByResult, i, r)
		}
	}
	if cmp.Or(o.Last.Compare(t.Last), strings.Compare(o.LastResult, t.LastResult)) > 0 {
		t.Last, t.LastResult = o.Last, o.LastResult
	}
}

// plus is both together; either may be nil.
func (t *Turns) plus(o *Turns) *Turns {
	switch {
	case t == nil:
		return o
	case o == nil:
		return t
	}
	sum := &Turns{}
	sum.add(t)
	sum.add(o)
	return sum
}

// equal compares turns, either of which may be nil.
func (t *Turns) equal(o *Turns) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Count == o.Count && t.Last.Equal(o.Last) && t.LastResult == o.LastResult && slices.Equal(t.ByResult, o.ByResult)
}
