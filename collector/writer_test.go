package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// A writer may die between any two of its statements, or after one whose
// answer was lost. The same batch again makes the figures right, whatever it
// left behind (opentelemetry-proto#218, openmeter#5118).
func TestWriterDiesAnywhere(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	want := map[string]usage.Nano{}
	for step := int64(1); step <= 10; step++ {
		for _, after := range []bool{false, true} {
			kind, run := fmt.Sprintf("kind %d %v", step, after), fmt.Sprintf("run-%d-%v", step, after)
			f := &usage.Facts{
				Events: []usage.Event{
					call("id "+kind, noon, usage.Labels{Kind: kind}),
					call("", noon.Add(time.Hour), usage.Labels{Kind: kind}),
					call("", noon.Add(2*time.Hour), usage.Labels{Session: "session " + run}),
				},
				Samples: []usage.Sample{push(t, run, 1, noon, map[string]uint64{"claude-haiku-4-5": 1})},
				Links:   []usage.Link{{Run: run, Session: "session " + run, Kind: kind, Arrived: noon}},
			}
			faulty := &faultyLedger{Store: s, after: after}
			faulty.left.Store(step)
			w := newWriter(t, faulty)
			if err := w.attempt(t.Context(), f); err == nil && step <= 8 {
				t.Fatalf("step %d: no fault was injected", step)
			}
			write(t, w, f)
			// The session's call and the push speak of the same run and
			// model: the call counts. The push keeps its own kind.
			want[kind] = 3 * five
			if diff := cmp.Diff(want, spend(t, s, "kind")); diff != "" {
				t.Fatalf("step %d, after %v:\n%s", step, after, diff)
			}
		}
	}
	closeAll(t, s)
	if diff := cmp.Diff(want, spend(t, s, "kind")); diff != "" {
		t.Errorf("closed:\n%s", diff)
	}
	verified(t, s)
}

func closeAll(t *testing.T, s *clickhouse.Store) {
	t.Helper()
	for {
		b, err := s.CloseBuckets(t.Context(), clickhouse.Quiet{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.CloseHours(t.Context(), clickhouse.Quiet{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		if b+h == 0 {
			return
		}
	}
}

func TestAnIDCountsOnceWithinTheWindow(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	first := call("a", noon, usage.Labels{Kind: "review"})
	second := call("a", noon.Add(-3*time.Hour), usage.Labels{Kind: "implement"})
	second.Arrived = noon.Add(time.Hour)
	write(t, w, &usage.Facts{Events: []usage.Event{first}})
	write(t, w, &usage.Facts{Events: []usage.Event{second}})
	if diff := cmp.Diff(map[string]usage.Nano{"review": five}, spend(t, s, "kind")); diff != "" {
		t.Errorf("the first must win:\n%s", diff)
	}
	// One that arrived earlier still, elsewhere, and drained late: it wins.
	earlier := call("a", noon.Add(-6*time.Hour), usage.Labels{Kind: "refine"})
	earlier.Arrived = noon.Add(-time.Hour)
	write(t, w, &usage.Facts{Events: []usage.Event{earlier}})
	if diff := cmp.Diff(map[string]usage.Nano{"refine": five}, spend(t, s, "kind")); diff != "" {
		t.Errorf("the earliest arrival must win:\n%s", diff)
	}
	// After the window the id is another call's.
	later := call("a", noon.Add(72*time.Hour), usage.Labels{Kind: "incident"})
	later.Arrived = noon.Add(72 * time.Hour)
	write(t, w, &usage.Facts{Events: []usage.Event{later}})
	if diff := cmp.Diff(map[string]usage.Nano{"refine": five, "incident": five}, spend(t, s, "kind")); diff != "" {
		t.Errorf("after the window:\n%s", diff)
	}
	verified(t, s)
}

func TestConflictUnderOneKeyKeepsTheWinner(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	a, b := call("a", noon, usage.Labels{Kind: "review"}), call("a", noon, usage.Labels{Kind: "implement"})
	b.Arrived = noon.Add(time.Minute)
	write(t, w, &usage.Facts{Events: []usage.Event{b, a}})
	write(t, w, &usage.Facts{Events: []usage.Event{b}})
	if diff := cmp.Diff(map[string]usage.Nano{"review": five}, spend(t, s, "kind")); diff != "" {
		t.Error(diff)
	}
	verified(t, s)
}

func TestCallsBeatPushesPerRunAndModel(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	pushed := push(t, "run", 1, noon, map[string]uint64{"claude-haiku-4-5": 3, "claude-sonnet-5": 1})
	write(t, w, &usage.Facts{Samples: []usage.Sample{pushed}})
	if diff := cmp.Diff(map[string]usage.Nano{"push": 3*five + 2*five}, spend(t, s, "feed")); diff != "" {
		t.Errorf("pushes alone:\n%s", diff)
	}
	write(t, w, &usage.Facts{Events: []usage.Event{call("a", noon, usage.Labels{Run: "run"})}})
	if diff := cmp.Diff(map[string]usage.Nano{"call": five, "push": 2 * five}, spend(t, s, "feed")); diff != "" {
		t.Errorf("a call of one model:\n%s", diff)
	}
	closeAll(t, s)
	if diff := cmp.Diff(map[string]usage.Nano{"call": five, "push": 2 * five}, spend(t, s, "feed")); diff != "" {
		t.Errorf("closed:\n%s", diff)
	}
	verified(t, s)
}

func TestALateLinkRelabels(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	write(t, w, &usage.Facts{
		Events: []usage.Event{
			call("by run", noon, usage.Labels{Run: "run"}),
			call("by session", noon, usage.Labels{Session: "session", Model: "claude-sonnet-5"}),
			call("own task", noon, usage.Labels{Run: "run", Task: "own"}),
		},
		Samples: []usage.Sample{push(t, "run", 1, noon, map[string]uint64{"claude-sonnet-5": 7, "claude-opus-5": 1})},
	})
	closeAll(t, s)
	opus := 5 * five
	sonnet := 2 * five
	if diff := cmp.Diff(map[string]usage.Nano{"": five + sonnet, "own": five, "run": 7*sonnet + opus}, spend(t, s, "task")); diff != "" {
		t.Errorf("unlinked:\n%s", diff)
	}
	// The session is the run's: its call now covers the run's pushes of Sonnet.
	write(t, w, &usage.Facts{Links: []usage.Link{{Run: "run", Task: "task", Session: "session", Issue: "acme/w#1", Arrived: noon.Add(time.Minute)}}})
	if diff := cmp.Diff(map[string]usage.Nano{"task": five + sonnet + opus, "own": five}, spend(t, s, "task")); diff != "" {
		t.Errorf("linked:\n%s", diff)
	}
	closeAll(t, s)
	verified(t, s)
	// Another link lets the session go.
	write(t, w, &usage.Facts{Links: []usage.Link{{Run: "run", Task: "other", Arrived: noon.Add(2 * time.Minute)}}})
	if diff := cmp.Diff(map[string]usage.Nano{"": sonnet, "other": five + 7*sonnet + opus, "own": five}, spend(t, s, "task")); diff != "" {
		t.Errorf("linked anew:\n%s", diff)
	}
	verified(t, s)
}

// Two replicas share one ledger: each batch of pushes of one run goes to one
// of them at random, and everything is sent to both in the end.
func TestTwoWritersOfOneRun(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	writers := []*Writer{newWriter(t, s), newWriter(t, s)}
	done := make(chan error, len(writers))
	for i, w := range writers {
		go func() {
			var err error
			for n := uint64(1); n <= 12 && err == nil; n++ {
				if n%2 == uint64(i) || n > 10 {
					sample := push(t, "run", n, noon.Add(time.Duration(n)*time.Minute), map[string]uint64{"claude-haiku-4-5": n})
					err = w.retry(t.Context(), &usage.Facts{Samples: []usage.Sample{sample}})
				}
			}
			done <- err
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]usage.Nano{"implement": 12 * five}, spend(t, s, "kind")); diff != "" {
		t.Error(diff)
	}
	verified(t, s)
}

// collector-contrib#43599: a backfill over more months than one insert may
// touch is split, not refused for ever.
func TestBackfillOverManyMonths(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	f := &usage.Facts{}
	const months = 140
	for i := range months {
		f.Events = append(f.Events, call(fmt.Sprint(i), noon.AddDate(0, -i, -29), usage.Labels{Kind: "review", Model: "claude-haiku-4-5"}))
	}
	write(t, w, f)
	if got := spend(t, s, "kind")["review"]; got != months*five {
		t.Errorf("%d, want %d", got, months*five)
	}
}

// litellm#38056: what no price is known for is unpriced, never 0 or negative,
// and is counted.
func TestUnknownModelIsUnpriced(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	reported := call("b", noon, usage.Labels{Kind: "implement", Model: "acme-llm"})
	reported.Reported = usage.Some(7)
	write(t, w, &usage.Facts{Events: []usage.Event{call("a", noon, usage.Labels{Kind: "review", Model: "acme-llm"}), reported}})
	rows, err := s.Spend(t.Context(), clickhouse.SpendQuery{By: []string{"kind"}, From: noon.Add(-time.Hour), To: noon.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		switch {
		case r.UnpricedTokens != 1_000_000:
			t.Errorf("%v: %d unpriced tokens, want a million", r.Keys, r.UnpricedTokens)
		case r.Keys[0] == "review" && r.Cost.Valid:
			t.Errorf("review costs %v, want unknown", r.Cost)
		case r.Keys[0] == "implement" && (r.Cost != usage.Some(7) || !r.Estimated):
			t.Errorf("implement costs %v, estimated %v; want the reported 7, estimated", r.Cost, r.Estimated)
		}
	}
}

// What a label has beyond its bound is folded and counted; the facts keep it,
// and the sum keeps every dollar.
func TestLabelsBeyondTheirBoundAreFolded(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	w.guard.labels = LabelBounds{Project: 9, Repo: 9, Kind: 2, Model: 9, Effort: 9, Agent: 9}.labels()
	for i := range 5 {
		kind := fmt.Sprint("kind ", i)
		f := &usage.Facts{Events: []usage.Event{call(kind, noon, usage.Labels{Kind: kind}), call(kind+" again", noon, usage.Labels{Kind: kind})}}
		if i == 4 {
			f.Samples = []usage.Sample{push(t, "run", 1, noon, map[string]uint64{"claude-haiku-4-5": 1})}
		}
		write(t, w, f)
	}
	want := map[string]usage.Nano{"kind 0": 2 * five, "kind 1": 2 * five, Other: 7 * five}
	if diff := cmp.Diff(want, spend(t, s, "kind")); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(w.metrics.folded.WithLabelValues("kind")); n < 7 {
		t.Errorf("%v labels counted as folded, want at least 7", n)
	}
	verified(t, s)
	// A repeated batch folds the same, and writes nothing anew.
	again := newWriter(t, s)
	again.guard.labels = w.guard.labels
	write(t, again, &usage.Facts{Samples: []usage.Sample{push(t, "run", 1, noon, map[string]uint64{"claude-haiku-4-5": 1})}})
	if n := testutil.ToFloat64(again.metrics.charges.WithLabelValues("written")); n != 0 {
		t.Errorf("%v charges written for a duplicate, want none", n)
	}
}

// A writer that dies for good after its rows are written, its journal lost
// with it, leaves them visible: the open mark keeps the bucket dirty.
func TestAWriterThatNeverReturnsHidesNothing(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	write(t, newWriter(t, s), &usage.Facts{Events: []usage.Event{call("a", noon, usage.Labels{Kind: "review"})}})
	closeAll(t, s)
	faulty := &dyingLedger{Store: s}
	f := &usage.Facts{Events: []usage.Event{call("b", noon, usage.Labels{Kind: "review"})}}
	if err := newWriter(t, faulty).attempt(t.Context(), f); !errors.Is(err, errInjected) {
		t.Fatalf("error %v, want the injected one", err)
	}
	closeAll(t, s)
	if got := spend(t, s, "kind")["review"]; got != 2*five {
		t.Errorf("%d, want %d", got, 2*five)
	}
}

// dyingLedger never completes a mark.
type dyingLedger struct{ *clickhouse.Store }

func (*dyingLedger) CompleteMarks(context.Context, uint64, []time.Time, time.Duration, uint64) error {
	return errInjected
}

// While one replica derives a run from what it has read, another adds a sample
// that arrived earlier and takes the increase over. Whoever writes last must
// not leave both.
func TestAFactThatComesWhileARunIsDerived(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	late := push(t, "run", 1, noon.Add(time.Minute), map[string]uint64{"claude-haiku-4-5": 1})
	early := push(t, "run", 2, noon, map[string]uint64{"claude-haiku-4-5": 2})
	other := newWriter(t, s)
	racing := &racingLedger{Store: s, meanwhile: func() { write(t, other, &usage.Facts{Samples: []usage.Sample{early}}) }}
	w := newWriter(t, racing)
	write(t, w, &usage.Facts{Samples: []usage.Sample{late}})
	if got := spend(t, s, "kind")["implement"]; got != 2*five {
		t.Errorf("%d, want %d", got, 2*five)
	}
	if n := testutil.ToFloat64(w.metrics.stale); n != 1 {
		t.Errorf("%v runs derived again, want 1", n)
	}
	verified(t, s)
}

// racingLedger lets something happen right after the samples were read.
type racingLedger struct {
	*clickhouse.Store
	once      sync.Once
	meanwhile func()
}

func (r *racingLedger) SampleHeads(ctx context.Context, runs []string) ([]usage.Sample, error) {
	out, err := r.Store.SampleHeads(ctx, runs)
	r.once.Do(r.meanwhile)
	return out, err
}

// A call that names only its session covers the pushes of the run that the
// session is linked to, also when it comes last.
func TestASessionsCallCoversItsRunsPushes(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	write(t, w, &usage.Facts{
		Links:   []usage.Link{{Run: "run", Session: "session", Task: "task", Arrived: noon}},
		Samples: []usage.Sample{push(t, "run", 1, noon, map[string]uint64{"claude-haiku-4-5": 3})},
	})
	write(t, w, &usage.Facts{Events: []usage.Event{call("a", noon, usage.Labels{Session: "session"})}})
	if diff := cmp.Diff(map[string]usage.Nano{"call": five}, spend(t, s, "feed")); diff != "" {
		t.Error(diff)
	}
	verified(t, s)
}
