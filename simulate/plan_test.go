package simulate

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func planOf(t *testing.T, change func(*Config)) (*Config, []*pod) {
	t.Helper()
	cfg := DefaultConfig()
	change(&cfg)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return &cfg, newPlan(&cfg)
}

// TestPlanHasEverything: a fleet of the default size has each of the troubles.
func TestPlanHasEverything(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		_, pods := planOf(t, func(c *Config) { c.Seed = seed })
		seen := map[string]int{}
		for _, p := range pods {
			seen["kind "+p.kind]++
			seen["repo "+p.repo]++
			seen["project "+p.project]++
			for i, l := range p.lives {
				seen["life"]++
				switch len(l.turns) {
				case 0:
					seen["idle life"]++
				case 1:
					seen["single turn"]++
				}
				for _, turn := range l.turns {
					seen["result "+turn.result]++
					if len(turn.tokens) > 1 {
						seen["two models"]++
					}
					seen["model "+turn.tokens[0].model]++
				}
				deleted := slices.ContainsFunc(p.steps, func(s step) bool { return s.life == i && s.push == exit })
				if !deleted {
					seen["crash"]++
				}
			}
			late := 0
			for k, s := range p.steps[1:] {
				if s.life < p.steps[k].life {
					seen["late"]++
					if s.push == exit {
						seen["late delete"]++
					} else {
						late++
					}
				}
			}
			if late > 2*len(p.lives) {
				t.Errorf("%s pushes %d times late", p.name, late)
			}
		}
		for _, want := range []string{
			"kind implement", "kind triageIssue", "repo ", "repo widgets", "project demo", "project tatara", "idle life", "single turn", "two models",
			"result complete", "result failed", "result interrupted", "model claude-opus-4-8", "model claude-sonnet-5", "model claude-haiku-4-5",
			"crash", "late", "late delete",
		} {
			if seen[want] == 0 {
				t.Errorf("seed %d: no %q", seed, want)
			}
		}
		if seen["life"] <= len(pods) {
			t.Errorf("seed %d: no respawn", seed)
		}
	}
}

// TestScheduleKeepsTheOrderOfALife: within a life pushes come in order and the
// DELETE last; a life starts after its predecessor did.
func TestScheduleKeepsTheOrderOfALife(t *testing.T) {
	t.Parallel()
	_, pods := planOf(t, func(c *Config) { c.Pods, c.Respawns, c.Seed = 500, len(signatures)-1, 3 })
	for _, p := range pods {
		next := make([]int, len(p.lives))
		for _, s := range p.steps {
			l := p.lives[s.life]
			switch {
			case s.push == exit && next[s.life] != len(l.pushes):
				t.Fatalf("%s: DELETE of life %d after push %d of %d", p.name, s.life, next[s.life], len(l.pushes))
			case s.push == exit:
				next[s.life]++
			case s.push != next[s.life]:
				t.Fatalf("%s: life %d pushes %d, want %d", p.name, s.life, s.push, next[s.life])
			default:
				next[s.life]++
			}
			if s.life > 0 && next[s.life-1] == 0 {
				t.Fatalf("%s: life %d starts before the one before", p.name, s.life)
			}
			if s.life > 1 && next[s.life-2] < len(p.lives[s.life-2].pushes) {
				t.Fatalf("%s: three lives at once", p.name)
			}
			if s.last != (s.push == len(l.pushes)-1) {
				t.Fatalf("%s: %+v of %d pushes", p.name, s, len(l.pushes))
			}
		}
		for i, n := range next {
			if n < len(p.lives[i].pushes) {
				t.Fatalf("%s: life %d sends %d of %d pushes", p.name, i, n, len(p.lives[i].pushes))
			}
		}
	}
}

// TestLivesCannotBeMistaken: once a life has finished a turn, it has called a
// tool that no other life of the pod calls.
func TestLivesCannotBeMistaken(t *testing.T) {
	t.Parallel()
	_, pods := planOf(t, func(c *Config) { c.Pods, c.Respawns = 500, len(signatures)-1 })
	for _, p := range pods {
		for i, l := range p.lives {
			for k, turn := range l.turns {
				for n, sign := range signatures {
					called := slices.ContainsFunc(turn.tools, func(c calls) bool { return c.tool == sign })
					if called != (n == i && k == 0) {
						t.Fatalf("%s: turn %d of life %d and %v: %v", p.name, k, i, sign, called)
					}
				}
			}
			if l.pushes[0] != (moment{}) {
				t.Fatalf("%s: life %d starts with %+v", p.name, i, l.pushes[0])
			}
			n := slices.IndexFunc(l.pushes, func(m moment) bool { return m.turns > 0 })
			for _, other := range p.lives {
				if m := slices.IndexFunc(other.pushes, func(m moment) bool { return m.turns > 0 }); n > 0 && m > 0 && m != n ||
					n > 0 && m < 0 && len(other.pushes) > n {
					t.Fatalf("%s: a life pushes %d times before its first turn ends, another %d times", p.name, n, m)
				}
			}
		}
	}
}

// TestPlanFollowsFromTheSeed, also for the pods of a larger fleet, and with
// copies.
func TestPlanFollowsFromTheSeed(t *testing.T) {
	t.Parallel()
	all := cmp.AllowUnexported(pod{}, life{}, moment{}, turn{}, spend{}, calls{}, step{})
	_, once := planOf(t, func(c *Config) { c.Pods = 30 })
	_, larger := planOf(t, func(c *Config) { c.Pods = 60; c.Concurrency = 3; c.Shuffle = true })
	// cmp takes seconds for so much, so it only explains.
	if !reflect.DeepEqual(once, larger[:30]) {
		t.Errorf("a larger fleet differs:\n%s", cmp.Diff(once, larger[:30], all))
	}
	_, other := planOf(t, func(c *Config) { c.Pods = 30; c.Seed = 2 })
	if reflect.DeepEqual(once, other) {
		t.Error("two seeds are one")
	}
	_, twice := planOf(t, func(c *Config) { c.Pods = 30; c.Duplicate = true })
	for i, p := range twice {
		if !reflect.DeepEqual(once[i].lives, p.lives) {
			t.Fatalf("copies change what is spent:\n%s", cmp.Diff(once[i].lives, p.lives, all))
		}
		firsts := slices.DeleteFunc(slices.Clone(p.steps), func(s step) bool { return s.copy })
		if !slices.Equal(once[i].steps, firsts) || len(p.steps) != 2*len(firsts) {
			t.Fatalf("%d steps of %d", len(p.steps), len(firsts))
		}
		for at, s := range p.steps {
			if s.copy {
				original := s
				original.copy = false
				if from := slices.Index(p.steps, original); from < 0 || from > at || at-from > 6 {
					t.Fatalf("copy at %d of %d", at, from)
				}
			}
		}
	}
}

func TestContextGrows(t *testing.T) {
	t.Parallel()
	_, pods := planOf(t, func(c *Config) { c.Pods = 300; c.Turns = 6 })
	var first, later, n, m float64
	for _, p := range pods {
		for _, l := range p.lives {
			for i, turn := range l.turns {
				s := turn.tokens[0]
				if i == 0 {
					first, n = first+float64(s.cacheRead), n+1
				} else {
					later, m = later+float64(s.cacheRead), m+1
				}
				if s.output == 0 || s.input == 0 || s.cacheCreate == 0 || i > 0 && s.cacheRead < 12_000 {
					t.Fatalf("turn %d: %+v", i, s)
				}
			}
		}
	}
	if later/m < 1.5*first/n {
		t.Errorf("a first turn reads %.0f on average, a later one %.0f", first/n, later/m)
	}
}
