package derive

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// scenario says how a simulated run id lives.
type scenario struct {
	name   string
	loss   float64 // share of pushes that never arrive
	outage bool    // a stretch of pushes in a row is lost, too
	late   int     // pushes of the old life after the new one's first, at most
	even   bool    // arrivals are evenly spaced: their times say nothing but the order
	// allowed is the share of seeds that may go wrong: what arrived fits
	// another history at least as well.
	allowed float64
}

var scenarios = []scenario{
	{name: "nothing lost, nothing late"},
	{name: "nothing lost, two late", late: 2},
	{name: "5 % lost, two late", allowed: 0.002, loss: 0.05, late: 2},
	{name: "20 % lost, nothing late", allowed: 0.01, loss: 0.2},
	{name: "20 % lost, two late", allowed: 0.006, loss: 0.2, late: 2},
	{name: "20 % lost, two late, order only", allowed: 0.006, loss: 0.2, late: 2, even: true},
	{name: "an outage, two late", allowed: 0.006, loss: 0.05, late: 2, outage: true},
	{name: "half lost, two late", allowed: 0.012, loss: 0.5, late: 2},
}

// sent is one push of a simulated process.
type sent struct {
	life   int
	at     time.Time
	sample usage.Sample
}

// simulateRun returns what arrives of two or three lives under one run id, in
// order of arrival, and the tokens of each life's last arrived snapshot.
func simulateRun(t *testing.T, rnd *rand.Rand, sc scenario) (arrived []sent, truth uint64) {
	t.Helper()
	var all []sent
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for life := range 2 + rnd.IntN(2) {
		n := 1 + rnd.IntN(40)
		var c usage.Counters
		busy := 0.05 + 0.5*rnd.Float64() // share of intervals in which a turn ends
		var pushes []sent
		for p := range n {
			if p > 0 && rnd.Float64() < busy {
				c = turnEnds(rnd, c)
			}
			at := start.Add(time.Duration(p)*15*time.Second + time.Duration(rnd.IntN(2000))*time.Millisecond)
			pushes = append(pushes, sent{life, at, mustSample(t, "run", at, uint64(p), c)})
		}
		all = append(all, pushes...)
		overlap := rnd.IntN(min(sc.late, n-1) + 1)
		start = pushes[n-1].at.Add(time.Duration(1+rnd.IntN(60)) * time.Second)
		if overlap > 0 { // the next life starts before the last pushes of this one
			start = pushes[n-overlap].at.Add(-time.Duration(1+rnd.IntN(8000)) * time.Millisecond)
		}
	}
	slices.SortStableFunc(all, func(a, b sent) int { return a.at.Compare(b.at) })
	from, to := len(all), 0
	if sc.outage {
		from = rnd.IntN(len(all))
		to = from + 1 + rnd.IntN(10)
	}
	last := map[int]uint64{}
	for i, s := range all {
		if rnd.Float64() < sc.loss || (i >= from && i < to) {
			continue
		}
		if sc.even {
			s.at = time.Date(2026, 11, 30, 12, 0, 0, i*int(time.Millisecond), time.UTC)
			s.sample.Arrived = s.at
		}
		arrived = append(arrived, s)
		last[s.life] = tokensOf(s.sample)
	}
	for _, n := range last {
		truth += n
	}
	return arrived, truth
}

func turnEnds(rnd *rand.Rand, c usage.Counters) usage.Counters {
	models := []string{"a", "b"}
	tokens := slices.Clone(c.Tokens)
	m := models[min(1, rnd.IntN(6)/5)]
	i := slices.IndexFunc(tokens, func(t usage.TokenCounter) bool { return t.Labels.Model == m })
	if i < 0 {
		tokens = append(tokens, usage.TokenCounter{Labels: usage.SampleLabels{Model: m}})
		i = len(tokens) - 1
	}
	tokens[i].Input += uint64(rnd.IntN(50))
	tokens[i].Output += uint64(1 + rnd.IntN(2000))
	tokens[i].CacheRead += uint64(rnd.IntN(100000))
	tokens[i].CacheWrite += uint64(rnd.IntN(5000))
	turns := slices.Clone(c.Turns)
	if len(turns) == 0 {
		turns = []usage.TurnCounter{{Result: "complete"}}
	}
	turns[0].Count++
	d := c.Durations
	seconds := float64(1 + rnd.IntN(300))
	d.Count++
	d.Sum += seconds
	d.Bounds = []float64{10, 100}
	buckets := make([]uint64, 2)
	copy(buckets, d.Buckets)
	for i, b := range d.Bounds {
		if seconds <= b {
			buckets[i]++
		}
	}
	d.Buckets = buckets
	return usage.Counters{Tokens: tokens, Turns: turns, Durations: d}
}

func tokensOf(s usage.Sample) (n uint64) {
	for _, c := range s.Counters.Tokens {
		n += c.Input + c.Output + c.CacheRead + c.CacheWrite
	}
	return n
}

// shared reports whether two lives sent one and the same snapshot with tokens:
// nobody can tell them apart.
func shared(arrived []sent) bool {
	life := map[usage.ID]int{}
	for _, s := range arrived {
		if l, seen := life[s.sample.ID]; seen && l != s.life && tokensOf(s.sample) > 0 {
			return true
		}
		life[s.sample.ID] = s.life
	}
	return false
}

func mustSample(t *testing.T, run string, at time.Time, pushes uint64, c usage.Counters) usage.Sample {
	t.Helper()
	c.Tokens, c.Costs = slices.Clone(c.Tokens), slices.Clone(c.Costs)
	c.Turns, c.Tools = slices.Clone(c.Turns), slices.Clone(c.Tools)
	s, err := usage.NewSample(run, run, at, pushes, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func samplesOf(arrived []sent) []usage.Sample {
	out := make([]usage.Sample, 0, len(arrived))
	for _, s := range arrived {
		out = append(out, s.sample)
	}
	return out
}

// derivedTokens is the sum over the lives of what each counted.
func derivedTokens(samples []usage.Sample) (n uint64) {
	for _, life := range lives(canonical(samples)) {
		n += tokensOf(life[len(life)-1])
	}
	return n
}

// TestLivesSimulation compares what is derived from what arrived of several
// lives with the truth, over many seeds.
func TestLivesSimulation(t *testing.T) {
	t.Parallel()
	seeds := 500 // 3000 give the shares in the table
	if testing.Short() {
		seeds = 100
	}
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			var wrong []string
			tried := 0
			for seed := range seeds {
				rnd := rand.New(rand.NewPCG(uint64(seed), 7))
				arrived, truth := simulateRun(t, rnd, sc)
				if shared(arrived) {
					continue
				}
				tried++
				if got := derivedTokens(samplesOf(arrived)); got != truth {
					wrong = append(wrong, fmt.Sprintf("seed %d: %d, truth %d", seed, got, truth))
				}
			}
			share := float64(len(wrong)) / float64(tried)
			t.Logf("%d of %d histories were read wrong: %.2f %%", len(wrong), tried, 100*share)
			if share > sc.allowed {
				t.Errorf("more than the %.2f %% that no reading can tell apart; first %s", 100*sc.allowed, cmp.Or(wrong[0], ""))
			}
		})
	}
}
