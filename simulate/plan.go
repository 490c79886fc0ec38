package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// pod is the plan of one pod: everything but what receivers answer.
type pod struct {
	name, run           string
	task                string // of its spend in the truth
	project, repo, kind string
	lives               []life
	steps               []step
}

// life is one process.
type life struct {
	turns []turn
	// pushes are what the process pushes, in order. The first is pushed at
	// the start and carries nothing.
	pushes []moment
}

// moment is the state of a process at a push.
type moment struct {
	turns    int  // finished
	inFlight bool // another one is running
}

// step is one request of a pod.
type step struct {
	life int
	push int // index into the life's pushes; exit for the DELETE
	last bool
	copy bool // the same bytes again, as a network may deliver them
}

const exit = -1

// Of a hundred lives so many. A fleet of forty pods has some of each.
const (
	percentRespawned = 35 // of the lives that are not the last allowed
	percentIdle      = 7  // never finish a turn
	percentSingle    = 18 // finish one turn
	percentDeleted   = 60 // announce their exit; the others crash
	percentLate      = 50 // of those that are followed: send a tail late
)

func newPlan(cfg *Config) []*pod {
	pods := make([]*pod, cfg.Pods)
	for i := range pods {
		pods[i] = newPod(cfg, i)
	}
	return pods
}

// newPod depends on the seed and the index alone, so that a larger fleet of a
// seed contains the smaller ones.
func newPod(cfg *Config, index int) *pod {
	rng := rand.New(rand.NewPCG(cfg.Seed, uint64(index)))
	p := &pod{
		kind:    cfg.Kinds[index%len(cfg.Kinds)],
		project: cfg.Projects[rng.IntN(len(cfg.Projects))],
	}
	p.repo = drawRepo(rng, cfg.Repos, p.kind)
	p.name = podName(cfg.Seed, p.kind, index)
	p.task = p.name
	p.run = p.name + "-0"
	models := drawModels(rng, cfg.Models, p.kind, index)
	empty := 1 + rng.IntN(4)
	for n := 0; n <= cfg.Respawns; n++ {
		p.lives = append(p.lives, newLife(rng, cfg.Turns, models, n, empty))
		if rng.IntN(100) >= percentRespawned {
			break
		}
	}
	p.steps = p.schedule(rng)
	if cfg.Duplicate {
		// Its own source: with copies or without, the pods spend the same.
		p.steps = withCopies(rand.New(rand.NewPCG(cfg.Seed^0xc0b1e5, uint64(index))), p.steps)
	}
	return p
}

// podName is a valid name of a Kubernetes pod for kinds that are one.
func podName(seed uint64, kind string, index int) string {
	return fmt.Sprintf("sim-%d-%s-%04d", seed, strings.ToLower(kind), index)
}

func drawRepo(rng *rand.Rand, repos []string, kind string) string {
	named := slices.DeleteFunc(slices.Clone(repos), func(r string) bool { return r == "" })
	if len(named) == 0 || slices.Contains([]string{"brainstorm", "refine", "incident", "triageIssue"}, kind) {
		return repos[rng.IntN(len(repos))]
	}
	return named[rng.IntN(len(named))]
}

// drawModels are the model of a pod and, for some pods, a second one.
func drawModels(rng *rand.Rand, models []string, kind string, index int) []string {
	family := "opus"
	if kind == "review" || strings.HasPrefix(kind, "triage") {
		family = "sonnet"
	}
	first := max(0, slices.IndexFunc(models, func(m string) bool { return strings.Contains(m, family) }))
	if index%7 == 6 {
		first = (index/7 + len(models) - 1) % len(models)
	}
	second := (first + 1 + rng.IntN(len(models))) % len(models)
	if second == first || rng.IntN(4) > 0 {
		return []string{models[first]}
	}
	return []string{models[first], models[second]}
}

// newLife pushes empty snapshots until its first turn ends: as many as every
// life of its pod, or fewer if no turn ends. Such snapshots of two lives are
// equal, so a receiver sees one series of them. Were there more from one life
// than from another, the surplus could be taken for a life that a late push of
// the other continues, and nothing in the data would say which is right.
func newLife(rng *rand.Rand, maxTurns int, models []string, number, empty int) life {
	var l life
	n := 0
	switch r := rng.IntN(100); {
	case maxTurns == 0 || r < percentIdle:
		empty = 1 + rng.IntN(empty)
	case maxTurns == 1 || r < percentIdle+percentSingle:
		n = 1
	default:
		n = 2 + rng.IntN(maxTurns-1)
	}
	l.turns = newTurns(rng, n, models, signatures[number])
	repeat := func(times int, m moment) {
		for range times {
			l.pushes = append(l.pushes, m)
		}
	}
	idle := 1 + rng.IntN(empty)
	repeat(idle, moment{})
	repeat(empty-idle, moment{inFlight: true})
	for i := range n {
		if i > 0 {
			repeat(rng.IntN(3), moment{turns: i, inFlight: true})
		}
		repeat(1+rng.IntN(3), moment{turns: i + 1})
	}
	// A last turn that is never finished, or its end never pushed.
	if n > 0 && rng.IntN(3) == 0 {
		repeat(1+rng.IntN(2), moment{turns: n, inFlight: true})
	}
	return l
}

// schedule puts the requests of all lives in one order. A life that another
// follows may send its last one or two pushes, and sends its DELETE, after the
// first push of its successor, which by then has sent at most four.
func (p *pod) schedule(rng *rand.Rand) []step {
	var out, tail []step
	for i, l := range p.lives {
		own := make([]step, len(l.pushes))
		for k := range own {
			own[k] = step{life: i, push: k, last: k == len(own)-1}
		}
		late := 0
		if rng.IntN(100) < percentLate {
			late = min(1+rng.IntN(2), len(own)-1)
		}
		if rng.IntN(100) < percentDeleted {
			own = append(own, step{life: i, push: exit})
			late++
		}
		if i == len(p.lives)-1 {
			late = 0
		}
		own, rest := own[:len(own)-late], own[len(own)-late:]

		out, own = append(out, own[0]), own[1:]
		for _, s := range tail {
			out = append(out, s)
			if len(own) > 0 && rng.IntN(2) == 0 {
				out, own = append(out, own[0]), own[1:]
			}
		}
		out, tail = append(out, own...), rest
	}
	return append(out, tail...)
}

// withCopies adds the copy of each step right behind it, or one or two steps
// later.
func withCopies(rng *rand.Rand, steps []step) []step {
	var out []step
	due := make([][]step, len(steps)+3)
	for i, s := range steps {
		out = append(out, s)
		again := s
		again.copy = true
		at := i + max(0, rng.IntN(4)-1)
		due[at] = append(due[at], again)
		out = append(out, due[i]...)
	}
	for _, rest := range due[len(steps):] {
		out = append(out, rest...)
	}
	return out
}
