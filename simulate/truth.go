package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Truth is what a fleet spent, as far as it was acknowledged. Its JSON form
// reads back to the same.
type Truth struct {
	Seed     uint64     `json:"seed"`
	Rows     []Row      `json:"rows"`     // by key
	Activity []Activity `json:"activity"` // by task
}

// Key says whose spend a row is. The task of a push is its pod, but for that of
// a [Runaway].
type Key struct {
	Task    string `json:"task"`
	Project string `json:"project"`
	Repo    string `json:"repo"`
	Kind    string `json:"kind"`
	Model   string `json:"model"`
}

// Sum is an amount of spend.
type Sum struct {
	Input      uint64 `json:"input"`
	Output     uint64 `json:"output"`
	CacheRead  uint64 `json:"cache_read"`
	CacheWrite uint64 `json:"cache_write"`
	// Cost is exact. A sum leaves out what has no price, and is null if
	// nothing has one.
	Cost           Cost   `json:"cost_nano"`
	UnpricedTokens uint64 `json:"unpriced_tokens"`
}

// Row is the spend of one key.
type Row struct {
	Key
	Sum
}

// Activity is what the counters without a model say of one task.
type Activity struct {
	Task    string            `json:"task"`
	Project string            `json:"project"`
	Repo    string            `json:"repo"`
	Kind    string            `json:"kind"`
	Lives   int               `json:"lives"` // that spent anything
	Turns   map[string]uint64 `json:"turns"` // by result
	Tools   []ToolCount       `json:"tools"` // by tool and outcome
}

// ToolCount counts the calls of one tool with one outcome.
type ToolCount struct {
	Tool    string `json:"tool"`
	Outcome string `json:"outcome"`
	Count   uint64 `json:"count"`
}

// Cost is an amount in nano-dollars; in JSON a number or null.
type Cost usage.NullNano

// MarshalJSON writes nano-dollars or null.
func (c Cost) MarshalJSON() ([]byte, error) { return json.Marshal(usage.NullNano(c).Ptr()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Cost) UnmarshalJSON(text []byte) error {
	var p *int64
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("reading nano-dollars: %w", err)
	}
	*c = Cost(usage.NullNanoOf(p))
	return nil
}

// String is the amount in dollars, or "unpriced".
func (c Cost) String() string {
	if !c.Valid {
		return "unpriced"
	}
	return c.Nano.String()
}

// Add adds o to s.
func (s *Sum) Add(o Sum) {
	s.Input += o.Input
	s.Output += o.Output
	s.CacheRead += o.CacheRead
	s.CacheWrite += o.CacheWrite
	s.UnpricedTokens += o.UnpricedTokens
	s.Cost.Nano += o.Cost.Nano
	s.Cost.Valid = s.Cost.Valid || o.Cost.Valid
}

// Tokens is the number of tokens of all classes.
func (s Sum) Tokens() uint64 { return s.Input + s.Output + s.CacheRead + s.CacheWrite }

// ByTask is a dimension of [Truth.By].
func ByTask(k Key) string { return k.Task }

// ByProject is a dimension of [Truth.By].
func ByProject(k Key) string { return k.Project }

// ByRepo is a dimension of [Truth.By].
func ByRepo(k Key) string { return k.Repo }

// ByKind is a dimension of [Truth.By].
func ByKind(k Key) string { return k.Kind }

// ByModel is a dimension of [Truth.By].
func ByModel(k Key) string { return k.Model }

// By sums the rows by a dimension.
func (t Truth) By(dimension func(Key) string) map[string]Sum {
	out := map[string]Sum{}
	for _, r := range t.Rows {
		s := out[dimension(r.Key)]
		s.Add(r.Sum)
		out[dimension(r.Key)] = s
	}
	return out
}

// Total is the sum of all rows.
func (t Truth) Total() Sum {
	var s Sum
	for _, r := range t.Rows {
		s.Add(r.Sum)
	}
	return s
}

// Turns are the turns of all tasks by result.
func (t Truth) Turns() map[string]uint64 {
	out := map[string]uint64{}
	for _, a := range t.Activity {
		for result, n := range a.Turns {
			out[result] += n
		}
	}
	return out
}

// Tools are the tool calls of all tasks.
func (t Truth) Tools() map[Tool]uint64 {
	out := map[Tool]uint64{}
	for _, a := range t.Activity {
		for _, c := range a.Tools {
			out[Tool{c.Tool, c.Outcome}] += c.Count
		}
	}
	return out
}

// truthBuilder collects the last acknowledged snapshots.
type truthBuilder struct {
	fleet    *Fleet
	at       time.Time // prices
	rows     map[Key]Sum
	activity map[string]*Activity
}

func newTruthBuilder(f *Fleet, at time.Time) *truthBuilder {
	return &truthBuilder{fleet: f, at: at, rows: map[Key]Sum{}, activity: map[string]*Activity{}}
}

// add adds a life up to a push; -1 adds nothing.
func (b *truthBuilder) add(p *pod, number, push int) {
	l := &p.lives[number]
	if push < 0 || l.pushes[push].turns == 0 {
		return
	}
	a := b.activity[p.task]
	if a == nil {
		a = &Activity{Task: p.task, Project: p.project, Repo: p.repo, Kind: p.kind, Turns: map[string]uint64{}}
		b.activity[p.task] = a
	}
	a.Lives++
	spent := map[string]Sum{}
	for _, t := range l.turns[:l.pushes[push].turns] {
		a.Turns[t.result]++
		for _, c := range t.tools {
			a.count(c)
		}
		for _, s := range t.tokens {
			sum := spent[s.model]
			sum.Add(Sum{Input: s.input, Output: s.output, CacheRead: s.cacheRead, CacheWrite: s.cacheCreate})
			spent[s.model] = sum
		}
	}
	for model, s := range spent {
		s.price(b.fleet.book, model, b.at)
		k := Key{Task: p.task, Project: p.project, Repo: p.repo, Kind: p.kind, Model: model}
		row := b.rows[k]
		row.Add(s)
		b.rows[k] = row
	}
}

func (a *Activity) count(c calls) {
	i, found := slices.BinarySearchFunc(a.Tools, c.tool, func(x ToolCount, t Tool) int {
		return cmp.Or(cmp.Compare(x.Tool, t.Name), cmp.Compare(x.Outcome, t.Outcome))
	})
	if !found {
		a.Tools = slices.Insert(a.Tools, i, ToolCount{Tool: c.tool.Name, Outcome: c.tool.Outcome})
	}
	a.Tools[i].Count += c.n
}

func (b *truthBuilder) truth() Truth {
	t := Truth{Seed: b.fleet.cfg.Seed, Rows: []Row{}, Activity: []Activity{}}
	for k, s := range b.rows {
		t.Rows = append(t.Rows, Row{k, s})
	}
	slices.SortFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Repo, b.Repo),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Model, b.Model))
	})
	for _, task := range slices.Sorted(maps.Keys(b.activity)) {
		t.Activity = append(t.Activity, *b.activity[task])
	}
	return t
}

// price sets what the tokens of a sum cost as the increase of a counter.
func (s *Sum) price(book *pricing.Book, model string, at time.Time) {
	p := book.Price(pricing.Usage{Model: model, Time: at, Tokens: usage.Tokens{
		Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite,
	}})
	s.Cost, s.UnpricedTokens = Cost(p.Computed), p.UnpricedTokens
}

// additive refuses a model of which a token costs a fraction of a nano-dollar:
// a receiver rounds each increase, so the sum would depend on which snapshots
// it saw. Unknown models have no price to round.
func additive(book *pricing.Book, model string) error {
	const picoPerNano = 1000 // a Rate is the pico-dollars of one token
	for _, r := range book.RowsOf(model) {
		for _, rate := range []pricing.NullRate{r.Input, r.Output, r.CacheRead, r.CacheWrite5m} {
			if rate.Rate%picoPerNano != 0 {
				return fmt.Errorf("model %s: row %s (%s) has the price %s, a fraction of a nano-dollar per token: "+
					"what increases cost would not add up to what their sum costs", model, r.ID(), r.Source, rate)
			}
		}
	}
	return nil
}

// samePrices reports [ErrPriceChanged] if a model's price row changed.
func samePrices(book *pricing.Book, models []string, start, end time.Time) error {
	for _, m := range models {
		one := func(at time.Time) string {
			return book.Price(pricing.Usage{Model: m, Time: at, Tokens: usage.Tokens{Input: 1}}).Row
		}
		if one(start) != one(end) {
			return fmt.Errorf("%w: model %s", ErrPriceChanged, m)
		}
	}
	return nil
}
