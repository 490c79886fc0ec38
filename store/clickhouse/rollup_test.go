package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// now closes whatever is complete.
func now() Quiet { return Quiet{} }

func closeAll(t testing.TB, s *Store) {
	t.Helper()
	for {
		b, err := s.CloseBuckets(t.Context(), now(), 3)
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.CloseHours(t.Context(), now(), 3)
		if err != nil {
			t.Fatal(err)
		}
		if b == 0 && h == 0 {
			return
		}
	}
}

func TestRollupEqualsCharges(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var charges []usage.Charge
	for i := range 200 {
		charges = append(charges, charge(fmt.Sprint(i), at(time.Duration(i)*97*time.Second), []string{"review", "implement"}[i%2], usage.Nano(i)))
	}
	// An unpriced one: its cost is unknown, which must not become 0 or vanish.
	unpriced := charge("unpriced", at(time.Hour), "refine", 0)
	unpriced.Cost, unpriced.Computed, unpriced.UnpricedTokens = usage.NullNano{}, usage.NullNano{}, 100
	counter := charge("counter", at(time.Hour), "incident", 5)
	counter.Feed, counter.Requests, counter.Approximate = usage.FeedPush, 0, true
	charges = append(charges, unpriced, counter)
	write(t, s, 1, Derived{Charges: charges})

	for _, by := range [][]string{{"kind"}, {"kind", "task"}, {"day"}, {"hour", "model"}, {"feed", "project"}, nil} {
		dirty := total(t, s, by...)
		defer func() {
			if diff := cmp.Diff(dirty, total(t, s, by...)); diff != "" {
				t.Errorf("by %v: closed differs from dirty:\n%s", by, diff)
			}
		}()
	}
	closeAll(t, s)
	if n, err := s.DirtyBuckets(t.Context()); err != nil || n != 0 {
		t.Fatalf("%d dirty buckets left, error %v", n, err)
	}
	kinds := total(t, s, "kind")
	if r := kinds["refine|"]; r.Cost.Valid || r.UnpricedTokens != 100 {
		t.Errorf("unpriced kind: cost %v, unpriced %d; want unknown and 100", r.Cost, r.UnpricedTokens)
	}
	if r := kinds["incident|"]; r.Requests != nil || !r.Approximate {
		t.Errorf("counters: requests %v, approximate %v; want unknown and true", r.Requests, r.Approximate)
	}
	if got, want := kinds["review|"].Cost, usage.Some(99*100); got != want {
		t.Errorf("review costs %v, want %v", got, want)
	}
}

func TestLateChargeReopensABucket(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	write(t, s, 1, Derived{Charges: []usage.Charge{charge("a", at(0), "review", 1)}})
	closeAll(t, s)
	write(t, s, 2, Derived{Charges: []usage.Charge{charge("b", at(time.Second), "review", 10)}})
	if got := total(t, s, "kind")["review|"].Cost; got != usage.Some(11) {
		t.Errorf("dirty again: %v, want 11", got)
	}
	closeAll(t, s)
	if got := total(t, s, "kind")["review|"].Cost; got != usage.Some(11) {
		t.Errorf("closed again: %v, want 11", got)
	}
}

func TestVanishedChargesLeaveTheRollup(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := charge("a", at(0), "review", 1)
	write(t, s, 1, Derived{Charges: []usage.Charge{c}})
	closeAll(t, s)
	write(t, s, 2, Derived{GoneCharges: []usage.Charge{c}})
	if got := total(t, s, "kind"); len(got) != 0 {
		t.Errorf("dirty: %v, want nothing", got)
	}
	closeAll(t, s)
	if got := total(t, s, "kind"); len(got) != 0 {
		t.Errorf("closed: %v, want nothing", got)
	}
	if got := total(t, s, "task"); len(got) != 0 {
		t.Errorf("closed, fine grain: %v, want nothing", got)
	}
}

// Activity leaves marks too, also where nothing was spent.
func TestABucketOfActivityAloneCloses(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	turn := usage.Activity{ID: usage.Hash("turn"), FactRun: "r", Feed: usage.FeedPush, Time: at(0), Name: usage.ActivityTurns, Result: "success", Count: 1}
	for i, d := range []Derived{
		{Activity: []usage.Activity{turn}},
		{Charges: []usage.Charge{charge("a", at(time.Second), "review", 1)}},
		{GoneActivity: []usage.Activity{turn}},
	} {
		write(t, s, uint64(10*i+1), d)
		for _, state := range []string{"dirty", "closed"} {
			if got, want := sum(total(t, s, "task")), usage.Nano(min(i, 1)); got != want {
				t.Errorf("step %d, %s: %d, want %d", i, state, got, want)
			}
			closeAll(t, s)
		}
		if n, err := s.DirtyBuckets(t.Context()); err != nil || n != 0 {
			t.Errorf("step %d: %d dirty buckets left, error %v", i, n, err)
		}
	}
}

func TestUncountedChargesAreInNoSum(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := charge("a", at(0), "review", 1)
	c.Counted = false
	write(t, s, 1, Derived{Charges: []usage.Charge{c}})
	if got := total(t, s); len(got) != 0 {
		t.Errorf("dirty: %v, want nothing", got)
	}
	closeAll(t, s)
	if got := total(t, s); len(got) != 0 {
		t.Errorf("closed: %v, want nothing", got)
	}
}

// An open mark means that rows may be half written: the bucket must wait.
func TestOpenMarkKeepsABucketDirty(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	c := charge("a", at(0), "review", 1)
	write(t, s, 1, Derived{Charges: []usage.Charge{c}})
	if err := s.OpenMarks(ctx, 7, []time.Time{c.Bucket()}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CloseBuckets(ctx, now(), 10); err != nil || n != 0 {
		t.Errorf("closed %d buckets with an open mark, error %v; want 0", n, err)
	}
	if err := s.CompleteMarks(ctx, 7, []time.Time{c.Bucket()}, 0, 8); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CloseBuckets(ctx, now(), 10); err != nil || n != 1 {
		t.Errorf("closed %d buckets, error %v; want 1", n, err)
	}
}

// A writer that was away longer than its mark is believed must not leave its
// rows hidden behind a closed bucket.
func TestSlowWriterReopens(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	c := charge("slow", at(0), "review", 5)
	buckets := []time.Time{c.Bucket()}
	if err := s.OpenMarks(ctx, 1, buckets); err != nil {
		t.Fatal(err)
	}
	// As if the mark had been taken for abandoned and its bucket closed.
	if err := s.setMarks(ctx, markRolled, marksOf(1, buckets)); err != nil {
		t.Fatal(err)
	}
	version, err := s.Clock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AppendDerived(ctx, &Derived{Version: version, Charges: []usage.Charge{c}}); err != nil {
		t.Fatal(err)
	}
	if err := s.CompleteMarks(ctx, 1, buckets, AbandonedAfter, 2); err != nil {
		t.Fatal(err)
	}
	if got := total(t, s)[""].Cost; got != usage.Some(5) {
		t.Errorf("cost %v, want 5", got)
	}
}

// faultyConn fails the nth statement, before or after it has run.
type faultyConn struct {
	driver.Conn
	mu    sync.Mutex
	left  int
	after bool
}

var errInjected = errors.New("injected fault")

func (c *faultyConn) fails() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left--
	return c.left == 0
}

func (c *faultyConn) Exec(ctx context.Context, q string, args ...any) error {
	if !c.fails() {
		return c.Conn.Exec(ctx, q, args...)
	}
	if c.after {
		return errors.Join(c.Conn.Exec(ctx, q, args...), errInjected)
	}
	return errInjected
}

func (c *faultyConn) Query(ctx context.Context, q string, args ...any) (driver.Rows, error) {
	if c.fails() {
		return nil, errInjected
	}
	return c.Conn.Query(ctx, q, args...)
}

func (c *faultyConn) PrepareBatch(ctx context.Context, q string, o ...driver.PrepareBatchOption) (driver.Batch, error) {
	fail := c.fails()
	if fail && !c.after {
		return nil, errInjected
	}
	b, err := c.Conn.PrepareBatch(ctx, q, o...)
	if fail && err == nil {
		return &faultyBatch{b}, nil
	}
	return b, err
}

type faultyBatch struct{ driver.Batch }

func (b *faultyBatch) Send() error { return errors.Join(b.Batch.Send(), errInjected) }

// A closer may die between any two of its statements, or after one that the
// server ran and whose answer was lost; every sum stays right at every moment.
func TestCloserDiesAnywhere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	want := usage.Nano(0)
	for step := 1; step <= 14; step++ {
		for _, after := range []bool{false, true} {
			name := fmt.Sprintf("%d/%v", step, after)
			want++
			write(t, s, rand.Uint64(), Derived{Charges: []usage.Charge{charge(name, at(time.Duration(step)*time.Minute), "review", 1)}})
			faulty := &Store{conn: &faultyConn{Conn: s.conn, left: step, after: after}, options: s.options, database: s.database}
			_, err := faulty.CloseBuckets(t.Context(), now(), 100)
			if err == nil {
				_, err = faulty.CloseHours(t.Context(), now(), 100)
			}
			if err != nil && !errors.Is(err, errInjected) {
				t.Fatalf("step %s: %v", name, err)
			}
			for _, by := range []string{"kind", "task"} {
				if got := sum(total(t, s, by)); got != want {
					t.Fatalf("step %s by %s: %d, want %d", name, by, got, want)
				}
			}
		}
	}
	closeAll(t, s)
	if got := sum(total(t, s, "kind")); got != want {
		t.Errorf("closed: %d, want %d", got, want)
	}
}

func sum(rows map[string]Spend) usage.Nano {
	var n usage.Nano
	for _, r := range rows {
		n += r.Cost.Nano
	}
	return n
}

// Writers and closers of several replicas work at once; a reader sees every
// charge whose write was complete before it asked, once, at every moment.
func TestSumsAreExactWhileBucketsClose(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	var closers sync.WaitGroup
	for range 2 {
		closers.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.CloseBuckets(ctx, now(), 5); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if _, err := s.CloseHours(ctx, now(), 2); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	var mu sync.Mutex
	written := usage.Nano(0)
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range 25 {
				c := charge(fmt.Sprint(w, "-", i), at(time.Duration(rand.IntN(40))*time.Minute), "review", 1)
				write(t, s, rand.Uint64(), Derived{Charges: []usage.Charge{c}})
				mu.Lock()
				written++
				mu.Unlock()
			}
		})
	}
	finished := make(chan struct{})
	go func() { writers.Wait(); close(finished) }()
	for done := false; !done; {
		select {
		case <-finished:
			done = true
		default:
		}
		for _, by := range []string{"kind", "task"} {
			mu.Lock()
			least := written
			mu.Unlock()
			got := sum(total(t, s, by))
			if got < least || got > 50 {
				t.Fatalf("by %s: %d, want %d to 50", by, got, least)
			}
		}
	}
	cancel()
	closers.Wait()
	closeAll(t, s)
	if got := sum(total(t, s, "task")); got != 50 {
		t.Errorf("in the end: %d, want 50", got)
	}
}

// The sum of a closer that was overtaken by another arrives late: the row that
// knows more must stay.
func TestALateCloserDoesNotUndoANewerOne(t *testing.T) {
	t.Parallel()
	s, ctx := newStore(t), t.Context()
	write(t, s, 1, Derived{Charges: []usage.Charge{charge("a", at(0), "review", 1)}})
	closeAll(t, s)
	for _, q := range []string{
		"CREATE TABLE late_5m AS spend_5m", "INSERT INTO late_5m SELECT * FROM spend_5m",
		"CREATE TABLE late_1h AS spend_1h", "INSERT INTO late_1h SELECT * FROM spend_1h",
	} {
		if err := s.conn.Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	write(t, s, 2, Derived{Charges: []usage.Charge{charge("b", at(time.Second), "review", 10)}})
	closeAll(t, s)
	for _, q := range []string{"INSERT INTO spend_5m SELECT * FROM late_5m", "INSERT INTO spend_1h SELECT * FROM late_1h"} {
		if err := s.conn.Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range []string{"kind", "task"} {
		if got := sum(total(t, s, by)); got != 11 {
			t.Errorf("by %s: %d, want 11", by, got)
		}
	}
}
