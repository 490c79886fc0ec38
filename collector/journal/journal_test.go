package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

// small returns a configuration with which a few records fill a segment.
func small(dir string) Config {
	c := DefaultConfig(dir)
	c.SegmentBytes, c.MaxBytes = 1<<10, 1<<20
	c.MaxRecordBytes, c.GroupBytes = 1<<10, 512
	c.BatchBytes = 700
	return c
}

func openTest(t testing.TB, cfg Config, d disk) *Journal {
	t.Helper()
	j, err := open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTest(t, j) })
	return j
}

func closeTest(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func appendTest(t testing.TB, j *Journal, records ...string) {
	t.Helper()
	for _, r := range records {
		if err := j.Append(t.Context(), []byte(r)); err != nil {
			t.Fatalf("append of %q: %v", r, err)
		}
	}
}

// drain reads all pending records without committing them.
func drain(t testing.TB, j *Journal) (records []string, last Position) {
	t.Helper()
	for {
		j.mu.Lock()
		done := j.reader.next >= j.next // the test is the only consumer
		j.mu.Unlock()
		if done {
			return records, last
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		b, err := j.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return records, last // what was left was lost
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := int(b.Last-b.First) + 1; got != len(b.Records) {
			t.Fatalf("positions %d to %d for %d records", b.First, b.Last, len(b.Records))
		}
		for _, r := range b.Records {
			records = append(records, string(r))
		}
		last = b.Last
	}
}

func numbered(from, to int) []string {
	var s []string
	for i := from; i <= to; i++ {
		s = append(s, fmt.Sprintf("record %04d %s", i, strings.Repeat("x", i%90)))
	}
	return s
}

func TestRecordsComeBackInOrderAcrossSegments(t *testing.T) {
	t.Parallel()
	j := openTest(t, small(t.TempDir()), osDisk{})
	want := append(numbered(1, 300), "", strings.Repeat("y", 1<<10))
	appendTest(t, j, want...)
	got, last := drain(t, j)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if n := j.Stats().Segments; n < 10 {
		t.Errorf("%d segments, the test wants many", n)
	}
	if err := j.Commit(last); err != nil {
		t.Fatal(err)
	}
	s := j.Stats()
	if s.PendingRecords != 0 || s.Segments != 1 || s.Bytes > 1<<10+headerBytes {
		t.Errorf("after commit of all: %+v", s)
	}
}

func TestNextWakesUpForAnAppend(t *testing.T) {
	t.Parallel()
	j := openTest(t, small(t.TempDir()), osDisk{})
	var delays []time.Duration
	for i := range 21 {
		got := make(chan time.Time)
		go func() {
			if _, err := j.Next(t.Context()); err != nil {
				t.Error(err)
			}
			got <- time.Now()
		}()
		time.Sleep(time.Millisecond) // let it block
		appendTest(t, j, fmt.Sprint(i))
		acked := time.Now()
		delays = append(delays, (<-got).Sub(acked))
	}
	slices.Sort(delays)
	// The median: a busy machine may hold up single ones.
	if d := delays[len(delays)/2]; d > 20*time.Millisecond {
		t.Errorf("seen %s after its acknowledgement", d)
	}
	t.Logf("seen after its acknowledgement: median %s, worst %s", delays[len(delays)/2], delays[len(delays)-1])
}

func TestNextHonoursLimits(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig(t.TempDir())
	cfg.BatchBytes, cfg.BatchRecords = 1000, 3
	j := openTest(t, cfg, osDisk{})
	appendTest(t, j, "a", "b", "c", "d", strings.Repeat("e", 5000), strings.Repeat("f", 600), strings.Repeat("g", 600))
	var got []int
	for range 5 {
		b, err := j.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(b.Records))
	}
	if d := cmp.Diff([]int{3, 1, 1, 1, 1}, got); d != "" {
		t.Error(d)
	}
}

func TestRestartResumesBehindTheCommit(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	records := numbered(1, 100)
	j := openTest(t, cfg, osDisk{})
	appendTest(t, j, records...)
	drain(t, j)
	for _, p := range []Position{0, 17, 17, 3, 42} {
		if err := j.Commit(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Commit(101); !errors.Is(err, ErrPosition) {
		t.Errorf("commit of the future: %v", err)
	}
	closeTest(t, j)

	j = openTest(t, cfg, osDisk{})
	if s := j.Stats(); s.Committed != 42 || s.Last != 100 || s.PendingRecords != 58 {
		t.Errorf("after restart: %+v", s)
	}
	appendTest(t, j, "new")
	got, last := drain(t, j)
	if d := cmp.Diff(append(records[42:], "new"), got); d != "" {
		t.Error(d)
	}
	if err := j.Commit(last); err != nil {
		t.Fatal(err)
	}
	closeTest(t, j)

	// Numbers go on even when no record is left on disk.
	j = openTest(t, cfg, osDisk{})
	if s := j.Stats(); s.Segments != 0 || s.Last != 101 {
		t.Errorf("drained and restarted: %+v", s)
	}
	appendTest(t, j, "newer")
	if b, err := j.Next(t.Context()); err != nil || b.First != 102 {
		t.Errorf("first after a restart: %+v, %v", b, err)
	}
}

func TestConcurrentAppendsAreAllThere(t *testing.T) {
	t.Parallel()
	j := openTest(t, small(t.TempDir()), osDisk{})
	const workers, each = 16, 50
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				if err := j.Append(t.Context(), fmt.Appendf(nil, "%d %d", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := make([]int, workers)
	for n := 0; n < workers*each; {
		b, err := j.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Records {
			var w, i int
			if _, err := fmt.Sscan(string(r), &w, &i); err != nil || next[w] != i {
				t.Fatalf("record %q, want number %d of its worker (%v)", r, next[w], err)
			}
			next[w]++
		}
		n += len(b.Records)
		if err := j.Commit(b.Last); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	j := openTest(t, cfg, osDisk{})
	if err := j.Append(t.Context(), make([]byte, 1<<10+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Append(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := j.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled next: %v", err)
	}
	blocked := make(chan error)
	go func() {
		_, err := j.Next(t.Context())
		blocked <- err
	}()
	closeTest(t, j)
	if err := <-blocked; !errors.Is(err, ErrClosed) {
		t.Errorf("next during close: %v", err)
	}
	if err := j.Append(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	if err := j.Commit(0); !errors.Is(err, ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig("x").Validate(); err != nil {
		t.Error(err)
	}
	err := Config{FullWait: -1}.Validate()
	for _, want := range []string{"folder", "segment bytes", "max record bytes", "group bytes", "full wait", "batch bytes", "batch records"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if err := (Config{Dir: "x", SegmentBytes: 10, MaxBytes: 19}).Validate(); !strings.Contains(err.Error(), "two segments") {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	j, err := Open(small(t.TempDir()), slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, j)
	appendTest(t, j, "one", "two")
	if _, err := j.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	want := `
# HELP tatara_ledger_journal_bytes Bytes of segments on disk that are not drained.
# TYPE tatara_ledger_journal_bytes gauge
tatara_ledger_journal_bytes 70
# HELP tatara_ledger_journal_capacity_bytes Bytes at which appends are refused.
# TYPE tatara_ledger_journal_capacity_bytes gauge
tatara_ledger_journal_capacity_bytes 1.048576e+06
# HELP tatara_ledger_journal_pending_records Acknowledged records that are not committed.
# TYPE tatara_ledger_journal_pending_records gauge
tatara_ledger_journal_pending_records 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), prefix+"bytes", prefix+"capacity_bytes", prefix+"pending_records"); err != nil {
		t.Error(err)
	}
	if age := j.Stats().OldestAge; age <= 0 || age > time.Minute {
		t.Errorf("oldest age %s", age)
	}
	if err := j.Commit(2); err != nil {
		t.Fatal(err)
	}
	if age := j.Stats().OldestAge; age != 0 {
		t.Errorf("oldest age %s with nothing pending", age)
	}
}
