package simulate

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scripted is what the recorded wrappers were told to do.
func scripted(model string, cacheCreate, cacheRead, input, output uint64) turn {
	return turn{
		result: "complete", seconds: 42,
		tokens: []spend{{model: model, input: input, output: output, cacheRead: cacheRead, cacheCreate: cacheCreate}},
		tools:  []calls{{Tool{"Bash", outcomeSuccess}, 3}},
	}
}

// TestSnapshotIsTheWrappers: in the state of a recorded wrapper, a process
// pushes the recorded bytes.
func TestSnapshotIsTheWrappers(t *testing.T) {
	t.Parallel()
	a := &pod{kind: "implement", repo: "widgets", project: "demo"}
	b := &pod{kind: "triageIssue", project: "demo"}
	c := &pod{kind: "review", repo: "gears", project: "demo"}
	const opus, sonnet = "claude-opus-4-8", "claude-sonnet-5"
	first := scripted(opus, 18000, 51000, 120, 2400)
	second := scripted(opus, 1400, 33000, 60, 1100)
	third := scripted(opus, 900, 36120, 20, 800)
	third.tokens = append(third.tokens, scripted(sonnet, 900, 12000, 40, 700).tokens...)
	for file, test := range map[string]struct {
		identity *pod
		turns    []turn
		pushed   int
	}{
		"001.txt": {identity: a},
		"002.txt": {a, []turn{first}, 1},
		"004.txt": {a, []turn{first, second, third}, 3},
		"007.txt": {b, []turn{scripted(sonnet, 21000, 0, 300, 150)}, 1},
		"013.txt": {identity: c},
		"017.txt": {c, []turn{scripted(sonnet, 9000, 80000, 25, 2100)}, 1},
	} {
		want, err := fs.ReadFile(Recording(), file)
		if err != nil {
			t.Fatal(err)
		}
		p := newProcess(test.identity)
		for range test.pushed {
			p.pushed(pushOK)
		}
		p.advance(test.turns, moment{turns: len(test.turns)})
		got, err := p.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-recorded +simulated):\n%s", file, diff)
		}
	}
}

// TestLargeValuesAreScientific as those of client_golang are.
func TestLargeValuesAreScientific(t *testing.T) {
	t.Parallel()
	p := newProcess(&pod{kind: "review", project: "tatara"})
	p.advance([]turn{scripted("claude-sonnet-5", 999_999, 1_234_567, 1, 1)}, moment{turns: 1, inFlight: true})
	p.pushed(pushRejected)
	p.pushed(pushTransport)
	text, err := p.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`ccw_turn_tokens_total{kind="review",model="claude-sonnet-5",project="tatara",repo="",type="cache_read"} 1.234567e+06`,
		`ccw_turn_tokens_total{kind="review",model="claude-sonnet-5",project="tatara",repo="",type="cache_creation"} 999999`,
		`ccw_metric_push_total{result="rejected"} 1`,
		`ccw_metric_push_total{result="transport_fail"} 1`,
		`ccw_turn_in_flight 1`,
	} {
		if !hasLine(text, want) {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
}
