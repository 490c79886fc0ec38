package derive

import (
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// TestLateCopyIsNoNewLife: a push whose original was lost and whose copy came
// after its successors has the very counters of a snapshot that is known.
func TestLateCopyIsNoNewLife(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 20, 42, 0, 0, time.UTC)
	var samples []usage.Sample
	push := func(second int, pushes, output uint64, tool string, calls uint64) {
		var c usage.Counters
		if output > 0 {
			c.Tokens = []usage.TokenCounter{{Labels: usage.SampleLabels{Model: "m"}, Output: output}}
			c.Turns = []usage.TurnCounter{{Result: "complete", Count: 1}}
			c.Tools = []usage.ToolCounter{{Tool: tool, Outcome: "success", Count: calls}}
		}
		s, err := usage.NewSample("run", "pod", at.Add(time.Duration(second)*time.Second), pushes, c)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, s)
	}
	push(0, 0, 0, "", 0)
	push(3, 1, 0, "", 0)
	push(9, 2, 9279, "Edit", 11) // the first life's turn
	push(28, 2, 0, "", 0)        // a second life that never finishes one
	push(31, 3, 3722, "Bash", 7) // the third's; its push 2 is lost
	push(37, 4, 3722, "Bash", 7)
	push(38, 2, 3722, "Bash", 7) // the copy of push 2
	push(44, 5, 3722, "Bash", 7)
	total := uint64(0)
	for _, life := range lives(canonical(samples)) {
		for _, c := range life[len(life)-1].Counters.Tokens {
			total += c.Output
		}
	}
	if want := uint64(9279 + 3722); total != want {
		t.Errorf("%d tokens, want %d", total, want)
	}
}
