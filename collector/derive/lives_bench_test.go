package derive

import (
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// One task ran 127 pods, all under one run id: every push of the last one
// derives them all anew.
func BenchmarkManyLives(b *testing.B) {
	const each = 240 // an hour of pushes
	var samples []usage.Sample
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for life := range 127 {
		for p := range uint64(each) {
			var c usage.Counters
			if turns := p / 10; turns > 0 {
				c.Turns = []usage.TurnCounter{{Result: "complete", Count: turns}}
				c.Tokens = []usage.TokenCounter{{Labels: usage.SampleLabels{Model: "claude-sonnet-5"}, Output: turns*1000 + uint64(life)}}
				c.Durations = usage.DurationCounter{Count: turns, Sum: float64(turns) * (30 + float64(life)/100)}
			}
			at = at.Add(15 * time.Second)
			s, err := usage.NewSample("run", "pod", at, p, c)
			if err != nil {
				b.Fatal(err)
			}
			samples = append(samples, s)
		}
	}
	order := canonical(samples)
	for b.Loop() {
		if n := len(lives(order)); n != 127 {
			b.Fatalf("%d lives, want 127", n)
		}
	}
	b.ReportMetric(float64(len(samples))*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
