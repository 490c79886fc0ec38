package collector

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// recorded is what testdata/record.cbor holds: a record that a version without
// outcomes and annotations wrote.
func recorded() usage.Facts {
	at := time.Date(2026, 11, 30, 11, 0, 0, 123e6, time.UTC)
	return usage.Facts{
		Events: []usage.Event{{
			ID: usage.Hash("call", "i"), Content: usage.Hash("content"), SourceID: "i", Feed: usage.FeedCall, Time: at, Arrived: at,
			Labels: usage.Labels{
				Project: "p", Repo: "r", Kind: "k", Task: "té\n", Issue: "o/r#1", Run: "u", Session: "s", Model: "m", Effort: "high", Agent: "a",
			},
			Tokens:      usage.Tokens{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 9, CacheWrite5m: 4, CacheWrite1h: 5},
			WebSearches: 7, Speed: "fast", Batch: true, InferenceGeo: "us", Reported: usage.Some(1e8), Duration: 1500 * time.Millisecond,
		}},
		Samples: []usage.Sample{{
			ID: usage.Hash("sample"), Run: "u", Pod: "pod", Arrived: at, Pushes: 3,
			Counters: usage.Counters{
				Tokens:    []usage.TokenCounter{{Labels: usage.SampleLabels{Project: "p", Repo: "r", Kind: "k", Model: "m"}, Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}},
				Costs:     []usage.CostCounter{{Labels: usage.SampleLabels{Project: "p"}, Cost: 5}},
				Turns:     []usage.TurnCounter{{Result: "success", Count: 6}},
				Tools:     []usage.ToolCounter{{Tool: "bash", Outcome: "ok", Count: 7}},
				Durations: usage.DurationCounter{Count: 6, Sum: 1.5, Bounds: []float64{1, 2}, Buckets: []uint64{5, 6}},
			},
		}},
		Links: []usage.Link{{Run: "u", Pod: "pod", Task: "t", Session: "s", Issue: "i", HandoffKey: "h", Kind: "k", Repo: "r", Project: "p", Effort: "e", Arrived: at}},
		Ends:  []usage.End{{Run: "u", Pod: "pod", Arrived: at}},
	}
}

// A journal outlives the version that wrote it: the numbers of fields are for ever.
func TestCodecReadsEarlierRecords(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/record.cbor")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recorded(), decoded(t, raw)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCodecKeepsWhatItEncodes(t *testing.T) {
	t.Parallel()
	want := recorded()
	at := want.Ends[0].Arrived
	want.Outcomes = []usage.Outcome{{ID: usage.Hash("o"), Time: at, Arrived: at.Add(time.Second), Task: "t", Outcome: usage.Delivered, Detail: "d"}, {Time: at, Arrived: at}}
	want.Annotations = []usage.Annotation{{ID: usage.Hash("a"), Time: at, Arrived: at, Project: "p", Text: "x", Tags: []string{"b", "a"}}, {Time: at, Arrived: at}}
	codec, err := NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := codec.Encode(&want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, decoded(t, raw)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func decoded(t *testing.T, raw []byte) (f usage.Facts) {
	t.Helper()
	codec, err := NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	if err := codec.Decode(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f
}
