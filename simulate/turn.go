package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// turn is what one turn adds to the counters of its process.
type turn struct {
	result  string
	seconds float64
	tokens  []spend // one per model
	tools   []calls
}

// spend is what a turn consumes of one model. Zero counters are exposed too.
type spend struct {
	model                                 string
	input, output, cacheRead, cacheCreate uint64
}

// calls are tool calls of one outcome.
type calls struct {
	tool Tool
	n    uint64
}

// Tool is a tool and the outcome of its calls: success or error.
type Tool struct{ Name, Outcome string }

const (
	outcomeSuccess = "success"
	outcomeError   = "error"
)

// signatures are calls that only the n-th life of a pod makes, in its first
// turn, so that its snapshots cannot be mistaken for those of another life.
var signatures = [...]Tool{
	{"Task", outcomeSuccess},
	{"WebFetch", outcomeSuccess},
	{"WebSearch", outcomeSuccess},
	{"NotebookEdit", outcomeSuccess},
	{"Task", outcomeError},
	{"WebFetch", outcomeError},
	{"WebSearch", outcomeError},
	{"NotebookEdit", outcomeError},
}

// newTurns plays a conversation: its context is written to the cache once and
// read back by every later call, so a turn costs more the later it comes.
func newTurns(rng *rand.Rand, n int, models []string, signature Tool) []turn {
	turns := make([]turn, n)
	var context uint64
	for i := range turns {
		t := &turns[i]
		t.result = drawResult(rng)
		t.seconds = drawSeconds(rng)
		s := spend{model: models[0]}
		for range 1 + rng.IntN(20) {
			s.cacheRead += context
			grown := uint64(200 + rng.IntN(3000))
			if context == 0 {
				grown += uint64(12_000 + rng.IntN(20_000)) // system prompt, tools, instructions
			}
			context += grown
			s.cacheCreate += grown
			s.input += uint64(2 + rng.IntN(60))
			s.output += uint64(40 + rng.IntN(900))
		}
		t.tokens = []spend{s}
		if len(models) > 1 && rng.IntN(2) == 0 {
			t.tokens = append(t.tokens, spend{
				model: models[1], input: uint64(20 + rng.IntN(400)), output: uint64(30 + rng.IntN(700)),
				cacheRead: uint64(rng.IntN(3)) * uint64(4000+rng.IntN(9000)), cacheCreate: uint64(rng.IntN(5000)),
			})
		}
		t.tools = drawCalls(rng)
		if i == 0 {
			t.tools = append(t.tools, calls{signature, 1 + rng.Uint64N(2)})
		}
	}
	return turns
}

func drawResult(rng *rand.Rand) string {
	switch r := rng.IntN(100); {
	case r < 7:
		return "failed"
	case r < 13:
		return "interrupted"
	default:
		return "complete"
	}
}

// drawSeconds has a median of a minute and a half and, as a real clock has,
// nanoseconds: two turns of the same duration do not happen.
func drawSeconds(rng *rand.Rand) float64 {
	s := math.Exp(math.Log(90) + 1.1*rng.NormFloat64())
	return time.Duration(min(max(s, 0.4), 3000) * float64(time.Second)).Seconds()
}

func drawCalls(rng *rand.Rand) []calls {
	var out []calls
	for _, name := range []string{"Bash", "Read", "Edit", "Write", "Grep", "Glob", "TodoWrite"} {
		if rng.IntN(2) == 0 {
			out = append(out, calls{Tool{name, outcomeSuccess}, 1 + rng.Uint64N(12)})
		}
		if rng.IntN(8) == 0 {
			out = append(out, calls{Tool{name, outcomeError}, 1 + rng.Uint64N(2)})
		}
	}
	return out
}
