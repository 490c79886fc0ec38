package collector

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// posted is a call that arrives at a time of its own.
func posted(id, kind string, arrived time.Duration) usage.Event {
	e := call(id, noon, usage.Labels{Kind: kind})
	e.Arrived = noon.Add(arrived)
	return e
}

// writeEach writes each event as a batch of its own.
func writeEach(t *testing.T, w *Writer, events ...usage.Event) {
	t.Helper()
	for _, e := range events {
		write(t, w, &usage.Facts{Events: []usage.Event{e}})
	}
}

// A dispute is settled over the whole history of its id, whatever the batch
// that showed it: a loser does not open a window of its own, and it stays a
// loser when it is posted again; a winner stays one.
func TestDisputesAreSettledOverTheirHistory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []usage.Event
		want   map[string]usage.Nano
	}{
		"a chain": {
			[]usage.Event{posted("x", "a", 0), posted("x", "b", 30*time.Hour), posted("x", "c", 60*time.Hour)},
			map[string]usage.Nano{"a": five, "c": five},
		},
		"a loser again after the window": {
			[]usage.Event{posted("x", "a", 0), posted("x", "b", time.Hour), posted("x", "b", 200*time.Hour)},
			map[string]usage.Nano{"a": five},
		},
		"a winner again within another's window": {
			[]usage.Event{posted("x", "a", 0), posted("x", "b", 100*time.Hour), posted("x", "a", 101*time.Hour)},
			map[string]usage.Nano{"a": five, "b": five},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLedger(t)
			writeEach(t, newWriter(t, s), c.events...)
			if diff := cmp.Diff(c.want, spend(t, s, "kind")); diff != "" {
				t.Error(diff)
			}
			verified(t, s)
		})
	}
}

// Two calls that used one id, further apart than the window, in one bucket and
// run: both count.
func TestAReusedIDCountsTwiceInOneBucket(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	w.cfg.ConflictWindow = time.Second
	a, b := call("x", noon, usage.Labels{Run: "run", Kind: "a"}), call("x", noon.Add(time.Second), usage.Labels{Run: "run", Kind: "b"})
	b.Arrived = noon.Add(5 * time.Second)
	writeEach(t, w, a, b)
	if diff := cmp.Diff(map[string]usage.Nano{"a": five, "b": five}, spend(t, s, "kind")); diff != "" {
		t.Error(diff)
	}
}

// A call that lost its id covers no pushes.
func TestALoserCoversNothing(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	write(t, w, &usage.Facts{Samples: []usage.Sample{push(t, "zb", 1, noon, map[string]uint64{"claude-haiku-4-5": 1})}})
	first, second := call("x", noon, usage.Labels{Run: "za"}), call("x", noon, usage.Labels{Run: "zb"})
	second.Arrived = noon.Add(time.Minute)
	writeEach(t, w, first, second)
	if diff := cmp.Diff(map[string]usage.Nano{"call": five, "push": five}, spend(t, s, "feed")); diff != "" {
		t.Error(diff)
	}
	verified(t, s)
}

// Feeds write one model with and without its date; they still speak of one.
func TestADatedModelIsCovered(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	write(t, w, &usage.Facts{Samples: []usage.Sample{push(t, "run", 1, noon, map[string]uint64{"claude-haiku-4-5-20251001": 2})}})
	writeEach(t, w, call("x", noon, usage.Labels{Run: "run", Model: "claude-haiku-4-5"}))
	if diff := cmp.Diff(map[string]usage.Nano{"call": five}, spend(t, s, "feed")); diff != "" {
		t.Error(diff)
	}
}

// A resumed session has several runs: its calls cover the pushes of each.
func TestAResumedSessionIsCoveredOnce(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	for i, run := range []string{"qa", "qb"} {
		at := noon.Add(time.Duration(i) * time.Minute)
		write(t, w, &usage.Facts{
			Links:   []usage.Link{{Run: run, Session: "session", Arrived: at}},
			Samples: []usage.Sample{push(t, run, 1, at, map[string]uint64{"claude-haiku-4-5": 1})},
		})
		writeEach(t, w, call(run, at, usage.Labels{Session: "session"}))
	}
	// The first run pushes once more, unchanged.
	write(t, w, &usage.Facts{Samples: []usage.Sample{push(t, "qa", 2, noon.Add(time.Hour), map[string]uint64{"claude-haiku-4-5": 1})}})
	if diff := cmp.Diff(map[string]usage.Nano{"call": 2 * five}, spend(t, s, "feed")); diff != "" {
		t.Error(diff)
	}
	verified(t, s)
}

// Only a run's latest link counts, also for a session that an earlier one named.
func TestASessionThatARunLetGo(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	link := func(run, session, task string, after time.Duration) {
		write(t, w, &usage.Facts{Links: []usage.Link{{Run: run, Session: session, Task: task, Arrived: noon.Add(after)}}})
	}
	link("r2", "s1", "old", 0)
	link("r2", "", "old", time.Second)
	link("xa", "sx", "xa", 0)
	link("xb", "sx", "xb", time.Second)
	link("xb", "", "xb", 2*time.Second)
	write(t, w, &usage.Facts{Events: []usage.Event{
		call("a", noon, usage.Labels{Session: "s1"}), call("b", noon, usage.Labels{Session: "sx"}),
	}})
	write(t, w, &usage.Facts{Samples: []usage.Sample{push(t, "xa", 1, noon, map[string]uint64{"claude-haiku-4-5": 1})}})
	if diff := cmp.Diff(map[string]usage.Nano{"": five, "xa": five}, spend(t, s, "task")); diff != "" {
		t.Error(diff)
	}
	verified(t, s)
}

// A backlog after an outage names more runs than the server's default length
// of a query allows, and a run that pushed for days more samples.
func TestManyRunsInOneBatch(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	f := &usage.Facts{}
	pad := strings.Repeat("x", 30)
	for i := range 12_000 {
		f.Events = append(f.Events, call(fmt.Sprint(i), noon, usage.Labels{Kind: "review", Run: fmt.Sprint(pad, i)}))
	}
	for i := range 2500 {
		f.Samples = append(f.Samples, push(t, fmt.Sprint(pad, "push", i), 1, noon, map[string]uint64{"claude-haiku-4-5": 1}))
	}
	for i := range uint64(7500) {
		f.Samples = append(f.Samples, push(t, "long", i, noon.Add(time.Duration(i)*15*time.Second), map[string]uint64{"claude-haiku-4-5": i}))
	}
	write(t, w, f)
	w.cache = newCounterCache() // as after a restart
	write(t, w, &usage.Facts{Samples: []usage.Sample{push(t, "long", 7500, noon.Add(40*time.Hour), map[string]uint64{"claude-haiku-4-5": 7500})}})
	want := map[string]usage.Nano{"review": 12_000 * five, "implement": (2500 + 7500) * five}
	if diff := cmp.Diff(want, spend(t, s, "kind")); diff != "" {
		t.Error(diff)
	}
}

// pushgateway#19, pushgateway#117: what is remembered of runs is bounded and
// forgotten; the ledger keeps them all.
func TestMemoryOfRunsIsBounded(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	w.cache.limit = 20
	const runs = 30
	for round := range uint64(2) {
		for i := range runs {
			at := noon.Add(time.Duration(round) * time.Minute)
			sample := push(t, fmt.Sprint("run ", i), round+1, at, map[string]uint64{"claude-haiku-4-5": round + 1})
			write(t, w, &usage.Facts{Samples: []usage.Sample{sample}})
			if n := len(w.cache.counters); n > 20 {
				t.Fatalf("%d samples remembered, want at most 20", n)
			}
		}
	}
	if got := spend(t, s, "kind")["implement"]; got != 2*runs*five {
		t.Errorf("%d, want %d", got, 2*runs*five)
	}
}

// collector-contrib#47843, clickhouse-go#1845: what arrives in quick succession
// is written at once, not record by record.
func TestRecordsAreWrittenTogether(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	j, err := journal.Open(journal.DefaultConfig(t.TempDir()), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	w.source, w.cfg.Linger = j, 3*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	record := NewRecorder(j, w.codec)
	const n = 60
	for i := range n {
		if err := record.Record(ctx, &usage.Facts{Events: []usage.Event{call(fmt.Sprint(i), noon, usage.Labels{Kind: "review"})}}); err != nil {
			t.Fatal(err)
		}
	}
	for j.Stats().PendingRecords > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(w.metrics.batches); got > n/10 {
		t.Errorf("%v batches for %d records", got, n)
	}
	if got := spend(t, s, "kind")["review"]; got != n*five {
		t.Errorf("%d, want %d", got, n*five)
	}
}

// failing hands out a batch, then an error, then another batch.
type failing struct {
	records
	then []records
}

func (f *failing) Next(ctx context.Context) (journal.Batch, error) {
	if f.raw == nil && len(f.then) > 0 {
		f.records.raw, f.then = f.then[0].raw, f.then[1:]
		return journal.Batch{}, errInjected
	}
	return f.records.Next(ctx)
}

// A journal that cannot be read for a moment ends nothing, and what was read
// before is written before anything later is committed.
func TestAFailedReadLosesNothing(t *testing.T) {
	t.Parallel()
	s := newLedger(t)
	w := newWriter(t, s)
	record := func(id string) [][]byte {
		raw, err := w.codec.Encode(&usage.Facts{Events: []usage.Event{call(id, noon, usage.Labels{Kind: "review"})}})
		if err != nil {
			t.Fatal(err)
		}
		return [][]byte{raw}
	}
	w.source = &failing{records: records{raw: record("a")}, then: []records{{raw: record("b")}}}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := spend(t, s, "kind")["review"]; got != 2*five {
		t.Errorf("%d, want %d", got, 2*five)
	}
}

// records hands out one batch of the journal, then nothing.
type records struct {
	raw       [][]byte
	committed journal.Position
}

func (r *records) Next(ctx context.Context) (journal.Batch, error) {
	if r.raw == nil {
		<-ctx.Done()
		return journal.Batch{}, ctx.Err()
	}
	b := journal.Batch{Records: r.raw, First: 1, Last: journal.Position(len(r.raw)), Oldest: noon}
	r.raw = nil
	return b, nil
}

func (r *records) Commit(p journal.Position) error { r.committed = p; return nil }

// A record that cannot be read is set aside and stops nothing, also alone.
func TestUndecodableRecordIsSetAside(t *testing.T) {
	t.Parallel()
	w := newWriter(t, newLedger(t))
	source := &records{raw: [][]byte{[]byte("garbage")}}
	w.source = source
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if source.committed != 1 {
		t.Errorf("committed to %d, want 1", source.committed)
	}
}
