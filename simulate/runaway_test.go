package simulate

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func runawayConfig() Config {
	cfg := DefaultConfig()
	cfg.Pods, cfg.Kinds, cfg.Repos, cfg.Projects = 3, []string{"implement", "review"}, []string{"widgets"}, []string{"demo"}
	cfg.Interval = 0
	return cfg
}

// TestRunawayReachesItsCost, by less than a token too much, with every push
// costing more than the one before.
func TestRunawayReachesItsCost(t *testing.T) {
	t.Parallel()
	for _, r := range []Runaway{
		{Cost: 2e9, Pushes: 12},
		{Cost: 1, Pushes: 3},
		{Cost: 1e15, Pushes: 7, Task: "T", PodPrefix: "p"},
		{Cost: 2_345_678_901, Pushes: 1000},
	} {
		for seed := range uint64(10) {
			cfg := runawayConfig()
			cfg.Seed = seed
			f, err := NewRunaway(cfg, r)
			if err != nil {
				t.Fatal(err)
			}
			const dearestCacheRead = 500 // nano-dollars a token, of the models
			truth := f.Planned(time.Now())
			if got := truth.Total().Cost; !got.Valid || got.Nano < r.Cost || got.Nano >= r.Cost+dearestCacheRead {
				t.Errorf("%+v, seed %d: costs %s", r, seed, got)
			}
			if tasks := truth.By(ByTask); len(tasks) != 1 || len(truth.Activity) != 1 || truth.Activity[0].Lives != 3 {
				t.Errorf("%+v: %d tasks, %+v", r, len(tasks), truth.Activity)
			}
			if spending := f.Requests() - 2*3; spending != r.Pushes {
				t.Errorf("%+v: %d pushes that spend", r, spending)
			}
		}
	}
}

// TestRunawayOnTheWire: one pod after the other, each a run of its own, with
// counters that only grow, and the same again for the same seed.
func TestRunawayOnTheWire(t *testing.T) {
	t.Parallel()
	cfg := runawayConfig()
	var (
		mu   sync.Mutex
		sent []string
		pods []string
	)
	cfg.After = func(r Request, _ Outcome) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Method+" "+r.URL+"\n"+string(r.Body))
		pods = append(pods, r.Pod)
	}
	cfg.PushURLs = []string{newSink(t)}
	f, err := NewRunaway(cfg, Runaway{Task: "T-1", PodPrefix: "t1", Cost: 3e9, Pushes: 7})
	if err != nil {
		t.Fatal(err)
	}
	want := []Run{{"t1-0", "t1-0-0", "T-1"}, {"t1-1", "t1-1-0", "T-1"}, {"t1-2", "t1-2-0", "T-1"}}
	if diff := cmp.Diff(want, f.Runs()); diff != "" {
		t.Error(diff)
	}
	truth, report, err := f.Run(t.Context())
	if err != nil || report.Unacknowledged > 0 {
		t.Fatalf("%v: %+v", err, report)
	}
	if diff := cmp.Diff(f.Planned(time.Now()), truth); diff != "" {
		t.Error(diff)
	}
	if !slices.IsSorted(pods) || len(slices.Compact(slices.Clone(pods))) != 3 {
		t.Errorf("pods push in the order %v", pods)
	}
	for i, body := range sent {
		if kind := map[string]string{"t1-0": "implement", "t1-1": "review", "t1-2": "implement"}[pods[i]]; strings.Contains(body, "ccw_turn_tokens_total{") &&
			!strings.Contains(body, `kind="`+kind+`"`) || strings.Contains(body, "T-1") {
			t.Errorf("%s pushes %s", pods[i], body)
		}
	}
	first := sent
	sent = nil
	if _, _, err := f.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, sent); diff != "" {
		t.Errorf("again:\n%s", diff)
	}
}

func TestRefusedRunaways(t *testing.T) {
	t.Parallel()
	noReads, err := pricing.Load("p.yaml", strings.NewReader("rows: [{model: noreads, input: 1, output: 2, cache_write_5m: 3}]"))
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config, *Runaway){
		"the cost is 0":                     func(_ *Config, r *Runaway) { r.Cost = 0 },
		"at most a million dollars":         func(_ *Config, r *Runaway) { r.Cost = 1e15 + 1 },
		"2 pushes of 3 pods":                func(_ *Config, r *Runaway) { r.Pushes = 2 },
		"at most 100000":                    func(_ *Config, r *Runaway) { r.Pushes = 100_001 },
		"sends nothing twice":               func(c *Config, _ *Runaway) { c.Duplicate = true },
		"no kinds":                          func(c *Config, _ *Runaway) { c.Kinds = nil },
		"model house-llm: input of it have": func(c *Config, _ *Runaway) { c.Models = []string{"house-llm"} },
		"cache reads of it have no price":   func(c *Config, _ *Runaway) { c.Prices, c.Models = noReads, []string{"noreads"} },
	} {
		cfg, r := runawayConfig(), Runaway{Cost: usage.Nano(1e9), Pushes: 12}
		change(&cfg, &r)
		if _, err := NewRunaway(cfg, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
