package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Runaway is one task that a platform works at with one pod after the other,
// and that costs more with every push.
type Runaway struct {
	// Task is what the pods work at. Default: PodPrefix. A push does not carry
	// it: the receiver derives it from the pod's name, or is told by a link of
	// each of [Fleet.Runs].
	Task string
	// PodPrefix begins the names of the pods, which end in -0, -1 and so on. Two
	// runaways of a task need different ones. Default: runaway- and the seed.
	PodPrefix string
	// Cost is what all pushes together come to, exceeded by less than the price
	// of one token.
	Cost usage.Nano
	// Pushes is how many pushes bring spend, each about the same. Every pod
	// pushes once more, empty, at its start. At least one for each pod.
	Pushes int
}

// The bounds of a runaway, against mistyped flags.
const (
	maxPushes = 100_000
	maxCost   = 1_000_000 * 1e9
)

// NewRunaway plans a task that runs away. Of the configuration, pods are those
// of the task, one after the other; projects, repositories and kinds are dealt
// to them in turn, so that several let the task change; models are dealt to the
// pushes in turn and must be priced in all that they use. Turns, Respawns,
// Shuffle and Concurrency mean nothing.
func NewRunaway(cfg Config, r Runaway) (*Fleet, error) {
	cfg.Shuffle, cfg.Concurrency = false, 1 // one pod after the other
	r.PodPrefix = cmp.Or(r.PodPrefix, fmt.Sprintf("runaway-%d", cfg.Seed))
	r.Task = cmp.Or(r.Task, r.PodPrefix)
	f, err := emptyFleet(cfg)
	if err == nil {
		err = r.validate(&cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("checking the runaway task: %w", err)
	}
	spending := runawaySpend{rng: rand.New(rand.NewPCG(cfg.Seed, 0x4a7a)), prices: map[string]tokenPrices{}}
	for _, m := range cfg.Models {
		if spending.prices[m], err = pricesOf(f.book, m, time.Now()); err != nil {
			return nil, fmt.Errorf("checking the runaway task: %w", err)
		}
	}
	done := 0
	for i := range cfg.Pods {
		p := &pod{
			name: fmt.Sprintf("%s-%d", r.PodPrefix, i), task: r.Task,
			project: cfg.Projects[i%len(cfg.Projects)], repo: cfg.Repos[i%len(cfg.Repos)], kind: cfg.Kinds[i%len(cfg.Kinds)],
		}
		p.run = p.name + "-0"
		l := life{pushes: []moment{{}}}
		for ; done < r.Pushes*(i+1)/cfg.Pods; done++ {
			target := usage.Nano(float64(r.Cost) * float64(done+1) / float64(r.Pushes))
			if done == r.Pushes-1 {
				target = r.Cost
			}
			l.turns = append(l.turns, spending.turn(cfg.Models[done%len(cfg.Models)], target, len(l.turns) == 0))
			l.pushes = append(l.pushes, moment{turns: len(l.turns)})
		}
		for k := range l.pushes {
			p.steps = append(p.steps, step{push: k, last: k == len(l.pushes)-1})
		}
		p.steps = append(p.steps, step{push: exit})
		p.lives = []life{l}
		f.pods = append(f.pods, p)
	}
	return f, nil
}

func (r *Runaway) validate(cfg *Config) error {
	var errs []error
	if r.Cost <= 0 || r.Cost > maxCost {
		errs = append(errs, fmt.Errorf("the cost is %s: want over 0 and at most a million dollars", r.Cost))
	}
	if r.Pushes < cfg.Pods || r.Pushes > maxPushes {
		errs = append(errs, fmt.Errorf("%d pushes of %d pods: want at least one of each pod and at most %d", r.Pushes, cfg.Pods, maxPushes))
	}
	if cfg.Duplicate {
		errs = append(errs, errors.New("a runaway task sends nothing twice"))
	}
	return errors.Join(errs...)
}

// Run is one process as links know it.
type Run struct{ Pod, Run, Task string }

// Runs are the runs of the fleet, in the order of its pods.
func (f *Fleet) Runs() []Run {
	out := make([]Run, 0, len(f.pods))
	for _, p := range f.pods {
		out = append(out, Run{p.name, p.run, p.task})
	}
	return out
}

// tokenPrices are the nano-dollars of one token of each class.
type tokenPrices struct{ input, output, cacheRead, cacheCreate usage.Nano }

// pricesOf refuses a model that is not priced in every class: what it spends
// could not be told in dollars.
func pricesOf(book *pricing.Book, model string, at time.Time) (tokenPrices, error) {
	var p tokenPrices
	for _, c := range []struct {
		class string
		one   usage.Tokens
		to    *usage.Nano
	}{
		{"input", usage.Tokens{Input: 1}, &p.input},
		{"output", usage.Tokens{Output: 1}, &p.output},
		{"cache reads", usage.Tokens{CacheRead: 1}, &p.cacheRead},
		{"cache writes", usage.Tokens{CacheWrite: 1}, &p.cacheCreate},
	} {
		cost := book.Price(pricing.Usage{Model: model, Time: at, Tokens: c.one}).Computed
		if !cost.Valid || cost.Nano <= 0 {
			return p, fmt.Errorf("model %s: %s of it have no price, and a runaway task is one in dollars", model, c.class)
		}
		*c.to = cost.Nano
	}
	return p, nil
}

// runawaySpend spends up to rising targets.
type runawaySpend struct {
	rng    *rand.Rand
	prices map[string]tokenPrices
	spent  usage.Nano
}

// turn spends what is missing to target. Most of it goes where a real agent's
// does; cache reads, the cheapest, make up the rest.
func (w *runawaySpend) turn(model string, target usage.Nano, first bool) turn {
	p := w.prices[model]
	left := max(target-w.spent, 0)
	part := func(percent int, price usage.Nano) uint64 {
		n := left / 100 * usage.Nano(w.rng.IntN(percent)) / price
		w.spent += n * price
		return uint64(n)
	}
	s := spend{model: model, output: part(35, p.output), cacheCreate: part(25, p.cacheCreate), input: part(5, p.input)}
	rest := (max(target-w.spent, 0) + p.cacheRead - 1) / p.cacheRead
	s.cacheRead = uint64(rest)
	w.spent += rest * p.cacheRead
	t := turn{result: "complete", seconds: drawSeconds(w.rng), tokens: []spend{s}, tools: drawCalls(w.rng)}
	if first {
		t.tools = append(t.tools, calls{signatures[0], 1})
	}
	return t
}
