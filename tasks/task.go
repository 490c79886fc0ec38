package tasks

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

const (
	bucket = usage.BucketSize
	// hour is the complete buckets of a task's last hour; the current one comes
	// on top.
	hour = 12 * bucket
	day  = 24 * time.Hour
)

// Amounts are what was spent.
type Amounts struct {
	// Cost is what is known of the dollars; it is not valid where nothing is.
	Cost usage.NullNano
	// Tokens are those of all classes: input, output, cache reads and writes.
	Tokens                            uint64
	InputTokens, OutputTokens         uint64
	CacheReadTokens, CacheWriteTokens uint64
	UnpricedTokens                    uint64 // no price is known for them: Cost lacks them
	Requests                          uint64 // calls of feeds that count them; 0: none does
	Approximate                       bool   // some cost was computed without knowing the size of its requests
	Estimated                         bool   // some cost is one that a source reported
}

// Model is what a task spent on one model.
type Model struct {
	Name   string
	Cost   usage.Nano // what is known of it
	Tokens uint64
}

// Task is what one task spent over all its runs, pods and sessions, and the turns
// it took.
type Task struct {
	Name string
	// The labels of its latest bucket with spend, as the ledger's view tasks has
	// them; of several in one bucket, the greatest.
	Project, Repo, Kind, Issue string
	// Model is the dominating one: most dollars, or most tokens where no dollar
	// is known, the first by name among equals. Spend that names no model does
	// not stand for one: "" means that none is named at all.
	Model string
	// Models are all models, "" included, the dominating one first; read only.
	Models []Model
	// Total is everything, Hour the last 12 complete buckets of five minutes
	// and the current one, by the server's clock at [Snapshot.At].
	Total, Hour Amounts
	// Runs are distinct runs with spend; spend of no known run counts none.
	Runs, HourRuns uint64
	// Subagents is the largest number of distinct subagents in any one session;
	// the main agent is none.
	Subagents uint64
	Turns     Turns
	// FirstSpend is the start of the first bucket with spend, and LastSpend the
	// end of the last, which may still lie ahead. The grain is five minutes.
	FirstSpend, LastSpend time.Time
}

func amountsOf(s *clickhouse.TaskSums) Amounts {
	return Amounts{
		Cost: s.Cost, Tokens: s.Input + s.Output + s.CacheRead + s.CacheWrite,
		InputTokens: s.Input, OutputTokens: s.Output, CacheReadTokens: s.CacheRead, CacheWriteTokens: s.CacheWrite,
		UnpricedTokens: s.UnpricedTokens, Requests: s.Requests, Approximate: s.Approximate, Estimated: s.Estimated,
	}
}

func (a *Amounts) add(b *Amounts) {
	a.Cost = a.Cost.Plus(b.Cost)
	a.Tokens += b.Tokens
	a.InputTokens += b.InputTokens
	a.OutputTokens += b.OutputTokens
	a.CacheReadTokens += b.CacheReadTokens
	a.CacheWriteTokens += b.CacheWriteTokens
	a.UnpricedTokens += b.UnpricedTokens
	a.Requests += b.Requests
	a.Approximate = a.Approximate || b.Approximate
	a.Estimated = a.Estimated || b.Estimated
}

// addModels adds models to a list without repetitions.
func addModels(to, more []Model) []Model {
	for _, m := range more {
		if i := slices.IndexFunc(to, func(t Model) bool { return t.Name == m.Name }); i >= 0 {
			to[i].Cost += m.Cost
			to[i].Tokens += m.Tokens
		} else {
			to = append(to, m)
		}
	}
	return to
}

// sortModels puts the dominating one first.
func sortModels(models []Model) {
	priced := slices.ContainsFunc(models, func(m Model) bool { return m.Cost != 0 })
	slices.SortFunc(models, func(a, b Model) int {
		if a.Name == "" || b.Name == "" {
			return -strings.Compare(a.Name, b.Name)
		}
		amount := cmp.Compare(b.Tokens, a.Tokens)
		if priced {
			amount = cmp.Compare(b.Cost, a.Cost)
		}
		return cmp.Or(amount, strings.Compare(a.Name, b.Name))
	})
}
