package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// fleet makes calls as a fleet would: few kinds, models and repositories, many
// tasks, every call with its own id, spread over an hour.
type fleet struct {
	random *rand.Rand
	start  time.Time
	n      int
}

func newFleet(seed uint64, start time.Time) *fleet {
	return &fleet{random: rand.New(rand.NewPCG(seed, 1)), start: start}
}

func (f *fleet) next() usage.Event {
	f.n++
	r := f.random
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	task := r.IntN(2000)
	e := usage.Event{
		Feed:     usage.FeedCall,
		SourceID: fmt.Sprintf("req_%016x%08x", r.Uint64(), f.n),
		Time:     f.start.Add(time.Duration(f.n) * 3 * time.Millisecond),
		Labels: usage.Labels{
			Project: "demo", Repo: fmt.Sprintf("acme/repo-%d", task%20),
			Kind: pick("implement", "review", "brainstorm", "refine", "incident"),
			Task: fmt.Sprintf("task-%d", task), Run: fmt.Sprintf("task-%d-0", task),
			Session: fmt.Sprintf("5e550000-0000-4000-8000-%012x", task),
			Model:   pick("claude-opus-4-8", "claude-sonnet-5", "claude-haiku-4-5"), Effort: "high",
		},
		Tokens: usage.Tokens{
			Input: r.Uint64N(2000), Output: r.Uint64N(4000), CacheRead: r.Uint64N(200_000),
			CacheWrite5m: r.Uint64N(3000),
		},
		Reported: usage.Some(usage.Nano(r.Int64N(1_000_000_000))),
		Duration: time.Duration(r.IntN(60_000)) * time.Millisecond,
	}
	e.Tokens.CacheWrite = e.Tokens.CacheWrite5m
	return e
}

// line is an event as a client posts it.
func line(b []byte, e *usage.Event) []byte {
	l, t := &e.Labels, &e.Tokens
	return fmt.Appendf(b, `{"id":%q,"ts":%q,"project":%q,"repo":%q,"kind":%q,"task":%q,"run":%q,"session":%q,"model":%q,"effort":%q,`+
		`"input_tokens":%d,"output_tokens":%d,"cache_read_tokens":%d,"cache_write_5m_tokens":%d,"cost_usd":%q,"duration_ms":%d}`+"\n",
		e.SourceID, e.Time.Format(time.RFC3339Nano), l.Project, l.Repo, l.Kind, l.Task, l.Run, l.Session, l.Model, l.Effort,
		t.Input, t.Output, t.CacheRead, t.CacheWrite5m, e.Reported.Nano.String(), e.Duration.Milliseconds())
}
