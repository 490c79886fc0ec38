package derive

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func book(t *testing.T) *pricing.Book {
	t.Helper()
	b, err := pricing.LoadFile("")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tokens are counters of one series with so many input tokens; 0 is a process
// before its first turn, whose family is absent.
func tokens(input uint64) usage.Counters {
	if input == 0 {
		return usage.Counters{}
	}
	return usage.Counters{
		Tokens: []usage.TokenCounter{{Labels: usage.SampleLabels{Model: "claude-opus-4-8"}, Input: input}},
		Turns:  []usage.TurnCounter{{Result: "complete", Count: 1 + input/100}},
	}
}

type arrival struct {
	second int // of arrival
	pushes uint64
	input  uint64
}

func samples(t *testing.T, of []arrival) []usage.Sample {
	t.Helper()
	out := make([]usage.Sample, 0, len(of))
	for _, a := range of {
		out = append(out, mustSample(t, "run", noon.Add(time.Duration(a.second)*time.Second), a.pushes, tokens(a.input)))
	}
	return out
}

func inputOf(r Run) (n uint64) {
	for _, c := range r.Charges {
		n += c.Tokens.Input
	}
	return n
}

func TestLives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		arrivals []arrival
		lives    uint64
		input    uint64
	}{
		{name: "nothing"},
		{"one idle push", []arrival{{0, 0, 0}}, 1, 0},
		{"prometheus#3886: first seen at 5000, then its process dies", []arrival{{0, 0, 5000}}, 1, 5000},
		{"an idle process pushes the same again and again", []arrival{{0, 0, 0}, {15, 1, 100}, {30, 2, 100}, {45, 3, 100}}, 1, 100},
		{"a restart", []arrival{{0, 0, 0}, {15, 1, 300}, {30, 2, 500}, {45, 1, 20}, {60, 2, 70}}, 2, 570},
		{"one late push of the old life", []arrival{{0, 0, 0}, {15, 1, 300}, {30, 2, 500}, {45, 1, 20}, {46, 3, 600}, {60, 2, 70}}, 2, 670},
		{
			"two late pushes of the old life",
			[]arrival{{0, 0, 0}, {15, 1, 300}, {30, 2, 500}, {45, 1, 20}, {46, 3, 600}, {60, 2, 70}, {61, 4, 650}, {75, 3, 80}},
			2, 730,
		},
		{
			"pushes lost in both lives",
			[]arrival{{0, 0, 0}, {45, 3, 300}, {120, 8, 500}, {135, 1, 20}, {136, 9, 600}, {200, 5, 70}, {260, 9, 90}},
			2, 690,
		},
		{"the family vanishes", []arrival{{0, 1, 300}, {15, 2, 0}, {30, 3, 40}}, 2, 340},
		{"out of order in one life", []arrival{{0, 0, 0}, {15, 2, 500}, {16, 1, 300}, {30, 3, 600}}, 1, 600},
		{"all of one life in reverse", []arrival{{0, 4, 600}, {1, 3, 500}, {2, 2, 300}, {3, 1, 100}, {4, 0, 0}}, 1, 600},
		{
			"out of order beside a restart",
			[]arrival{{0, 0, 0}, {15, 1, 100}, {30, 3, 300}, {31, 2, 200}, {45, 4, 400}, {60, 1, 10}, {75, 3, 30}, {76, 2, 20}, {90, 4, 40}},
			2, 440,
		},
		{"a duplicate with another arrival", []arrival{{0, 1, 100}, {15, 2, 300}, {400, 1, 100}, {401, 2, 300}}, 1, 300},
		{"no push counts: a lower value is a new life", []arrival{{0, 0, 300}, {15, 0, 500}, {30, 0, 20}, {45, 0, 90}}, 2, 590},
		{"no push counts: nothing tells a late push from a restart", []arrival{{0, 0, 300}, {15, 0, 20}, {30, 0, 350}, {45, 0, 40}}, 3, 690},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := New(book(t), nil).Run(RunFacts{Run: "run", Samples: samples(t, c.arrivals)})
			if got.Summary.Lives != c.lives || inputOf(got) != c.input {
				t.Errorf("%d lives, %d tokens, want %d, %d", got.Summary.Lives, inputOf(got), c.lives, c.input)
			}
		})
	}
}

// TestManyLives: one task ran 127 pods under one run id.
func TestManyLives(t *testing.T) {
	t.Parallel()
	var all []usage.Sample
	want, at := uint64(0), noon
	for life := range 127 {
		for p := range 240 {
			at = at.Add(15 * time.Second)
			all = append(all, mustSample(t, "run", at, uint64(p), tokens(uint64(p*(life+1)))))
		}
		want += uint64(239 * (life + 1))
	}
	start := time.Now()
	got := New(book(t), nil).Run(RunFacts{Run: "run", Samples: all})
	t.Logf("%d pushes took %s", len(all), time.Since(start))
	if inputOf(got) != want {
		t.Errorf("%d tokens, want %d", inputOf(got), want)
	}
}

// TestIncreaseIsBookedAtItsEarliestArrival, whole, though a push with a lower
// count arrives later.
func TestIncreaseIsBookedAtItsEarliestArrival(t *testing.T) {
	t.Parallel()
	got := New(book(t), nil).Run(RunFacts{Run: "run", Samples: samples(t, []arrival{{0, 1, 100}, {15, 3, 500}, {16, 2, 300}, {90, 4, 500}, {100, 5, 600}})})
	booked := map[string]uint64{}
	for _, c := range got.Charges {
		booked[c.Time.Format(time.TimeOnly)] += c.Tokens.Input
	}
	if diff := cmp.Diff(map[string]uint64{"12:00:00": 100, "12:00:15": 400, "12:01:40": 100}, booked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	two := samples(t, []arrival{{0, 0, 0}, {15, 1, 100}})
	end := func(second int) []usage.End {
		return []usage.End{{Run: "run", Arrived: noon.Add(time.Duration(second) * time.Second)}}
	}
	d := New(book(t), nil)
	for name, c := range map[string]struct {
		ends []usage.End
		want time.Time
	}{
		"none":                  {nil, time.Time{}},
		"late, of the old life": {end(10), time.Time{}},
		"after the last push":   {end(20), noon.Add(20 * time.Second)},
		"with the last push":    {end(15), noon.Add(15 * time.Second)},
		"twice: the last one":   {append(end(30), end(20)...), noon.Add(30 * time.Second)},
	} {
		got := d.Run(RunFacts{Run: "run", Samples: two, Ends: c.ends})
		if !got.Summary.Ended.Equal(c.want) || inputOf(got) != 100 {
			t.Errorf("%s: ended %s, %d tokens", name, got.Summary.Ended, inputOf(got))
		}
	}
}

// TestRunDependsOnTheSetOnly: any order and any repetition of the facts gives
// the same.
func TestRunDependsOnTheSetOnly(t *testing.T) {
	t.Parallel()
	d := New(book(t), nil)
	for seed := range 60 {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		arrived, _ := simulateRun(t, rnd, scenario{loss: 0.2, late: 2, even: seed%2 == 0})
		set := samplesOf(arrived)
		for i := range set {
			set[i].Pod = "pod" + strconv.Itoa(rnd.IntN(2))
			if seed%3 == 0 { // many arrive at once
				set[i].Arrived = set[i].Arrived.Truncate(time.Minute)
			}
		}
		want := d.Run(RunFacts{Run: "run", Samples: set})
		again := slices.Clone(set)
		for _, s := range set {
			if rnd.IntN(2) == 0 {
				s.Arrived = s.Arrived.Add(time.Duration(rnd.IntN(3)) * time.Hour)
				s.Pod = "pod9"
				again = append(again, s)
			}
		}
		rnd.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		if diff := cmp.Diff(want, d.Run(RunFacts{Run: "run", Samples: again}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}
