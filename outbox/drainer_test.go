package outbox

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store"
	ledger "github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

var errCrash = errors.New("crash")

func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.drainer(f.outbox, f.ledger)
	if err := d.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.enqueue(t, 35)
	if err := d.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pending, lag := testutil.ToFloat64(d.metrics.pending), testutil.ToFloat64(d.metrics.lag); pending != 35 || lag < 3600 || lag > 3700 {
		t.Errorf("%v pending, since %v s", pending, lag)
	}
	if err := d.runOnce(t.Context()); err != nil { // full batches follow each other
		t.Fatal(err)
	}
	f.holds(t, 35)
	counted(t, d, 35, 0, 0, 0, 0)
	if pending, lag := testutil.ToFloat64(d.metrics.pending), testutil.ToFloat64(d.metrics.lag); pending != 0 || lag != 0 {
		t.Errorf("%v pending, since %v s", pending, lag)
	}
}

// What the store writes about handoffs and rooms arrives as it was written.
func TestDrainWhatTheStoreWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, actor := t.Context(), store.Actor{Name: "agent", RequestID: "run-1"}
	h, err := f.outbox.PutHandoff(ctx, actor, nil, store.HandoffWrite{Key: "k/1", Project: "demo", Repo: "acme/widgets", Kind: "implement", Body: "12345"})
	if err != nil {
		t.Fatal(err)
	}
	room, err := f.outbox.CreateRoom(ctx, actor, nil, store.NewRoom{Name: "room", CreatedBy: "orchestrator"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.outbox.Join(ctx, actor, nil, room.ID, store.NewParticipant{Name: "a", Role: "implementer"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.outbox.Send(ctx, actor, nil, room.ID, store.NewMessage{ParticipantID: p.ID, Target: "a", Kind: "question", Body: "why?"})
	if err != nil {
		t.Fatal(err)
	}
	var got []store.Event
	_, err = f.outbox.Drain(ctx, 100, func(_ context.Context, events []store.Event) error {
		got = events
		return errCrash
	})
	if !errors.Is(err, errCrash) || len(got) != 4 {
		t.Fatalf("%d events, %v", len(got), err)
	}
	if e := got[0]; e.Action != store.HandoffWritten || e.Key != "k/1" || e.Project != "demo" || e.Repo != "acme/widgets" || e.Kind != "implement" ||
		e.Revision != 1 || e.Bytes != 5 || e.Actor != "agent" || e.RequestID != "run-1" || !e.At.Equal(h.UpdatedAt) || e.RoomID.Valid || e.MessageID != 0 {
		t.Errorf("%+v", e)
	}
	if e := got[3]; e.Action != store.MessageSent || e.RoomID.UUID != room.ID || e.ParticipantID.UUID != p.ID || e.MessageID != m.ID ||
		!e.Direct || e.Kind != "question" || e.Bytes != 4 || e.Key != "" {
		t.Errorf("%+v", e)
	}
	if err := f.drainer(f.outbox, f.ledger).runOnce(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := f.ledger.HandoffStats(ctx, ledger.HandoffStatsQuery{From: time.Now().Add(-day), To: time.Now().Add(day), Now: time.Now(), StaleAfter: day, Keys: 9})
	if err != nil || len(s.NeverRead) != 1 || s.NeverRead[0].Key != "k/1" || !s.NeverRead[0].UpdatedAt.Equal(h.UpdatedAt) {
		t.Errorf("%+v, %v", s, err)
	}
}

// A crash after the ledger took a batch and before the outbox forgot it.
func TestCrashBetweenInsertAndDelete(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(t, 25)
	var left atomic.Int64
	left.Store(3)
	d := f.drainer(f.outbox, &sink{appender: f.ledger, after: func(context.Context) error {
		if left.Add(-1) >= 0 {
			return errCrash
		}
		return nil
	}})
	for i := range 3 {
		if err := d.runOnce(t.Context()); !errors.Is(err, errCrash) || f.waiting(t) != 25 {
			t.Fatalf("attempt %d: %v, %d left", i, err, f.waiting(t))
		}
	}
	if err := d.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.holds(t, 25)
	counted(t, d, 25, 30, 0, 0, 3)
}

// Postgres goes away while the ledger takes a batch.
func TestConnectionCutBetweenInsertAndDelete(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(t, 25)
	var cut atomic.Bool
	d := f.drainer(f.outbox, &sink{appender: f.ledger, after: func(ctx context.Context) error {
		if !cut.CompareAndSwap(false, true) {
			return nil
		}
		_, err := f.conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()`)
		return err
	}})
	if err := d.runOnce(t.Context()); err == nil || f.waiting(t) != 25 {
		t.Fatalf("%v, %d left", err, f.waiting(t))
	}
	if got := testutil.ToFloat64(d.metrics.events.WithLabelValues(repeated)); got != 10 {
		t.Errorf("%v repeated", got)
	}
	until(t, "draining", func() bool { return d.runOnce(t.Context()) == nil })
	f.holds(t, 25)
}

// Several replicas drain side by side, each failing now and then at every step.
func TestDrainersSideBySide(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const events = 600
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	var (
		working  atomic.Int64
		together atomic.Bool
	)
	now := func(share float64) func(context.Context) error {
		return func(context.Context) error {
			if rand.Float64() < share {
				return errCrash
			}
			return nil
		}
	}
	drainers := make([]*Drainer[store.Event], 3)
	for i := range drainers {
		failBefore := now(0.1)
		drainers[i] = f.drainer(f.outbox, &sink{appender: f.ledger, before: func(ctx context.Context) error {
			if working.Add(1) > 1 {
				together.Store(true)
			}
			defer working.Add(-1)
			time.Sleep(5 * time.Millisecond)
			return failBefore(ctx)
		}, after: now(0.2)})
		g.Go(func() error { return drainers[i].Run(ctx) })
	}
	f.enqueue(t, events)
	until(t, "an empty outbox", func() bool { return f.waiting(t) == 0 })
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	f.holds(t, events)
	if !together.Load() {
		t.Error("they waited for each other")
	}
	var copies float64
	for _, d := range drainers {
		copies += testutil.ToFloat64(d.metrics.events.WithLabelValues(copied))
	}
	if copies != events {
		t.Errorf("%v copied, want %d", copies, events)
	}
}

// away is an address at which nobody listens.
func away(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// either is a sink that is one of two.
type either struct {
	now atomic.Pointer[ledger.Store]
}

func (e *either) AppendChatEvents(ctx context.Context, events []store.Event) error {
	return e.now.Load().AppendChatEvents(ctx, events)
}

func TestClickHouseAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone, to := openLedger(t, away(t)), &either{}
	to.now.Store(gone)
	d := f.drainer(f.outbox, to)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	for outage := range 2 {
		to.now.Store(gone)
		f.enqueue(t, 25)
		before := testutil.ToFloat64(d.metrics.failures.WithLabelValues(clickhouse))
		until(t, "some attempts", func() bool { return testutil.ToFloat64(d.metrics.failures.WithLabelValues(clickhouse)) > before+3 })
		if n := f.waiting(t); n != 25 || f.log.count("do not get through") != outage+1 {
			t.Errorf("%d wait, %d lines:\n%s", n, f.log.count("do not get through"), f.log.text.String())
		}
		if pending, lag := testutil.ToFloat64(d.metrics.pending), testutil.ToFloat64(d.metrics.lag); pending != 25 || lag < 3600 {
			t.Errorf("%v pending, since %v s", pending, lag)
		}
		to.now.Store(f.ledger)
		until(t, "an empty outbox", func() bool { return f.waiting(t) == 0 })
		until(t, "the end of the outage", func() bool { return f.log.count("get through again") == outage+1 })
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	f.holds(t, 50)
}

// source is an outbox that can fail.
type source struct {
	Source[store.Event]
	failing atomic.Bool
	backlog atomic.Bool // only counting fails
}

func (s *source) Drain(ctx context.Context, limit int, into func(context.Context, []store.Event) error) (int, error) {
	if s.failing.Load() {
		return 0, errCrash
	}
	return s.Source.Drain(ctx, limit, into)
}

func (s *source) Backlog(ctx context.Context, limit int) (int, time.Time, error) {
	if s.failing.Load() || s.backlog.Load() {
		return 0, time.Time{}, errCrash
	}
	return s.Source.Backlog(ctx, limit)
}

func TestPostgresAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(t, 25)
	from := &source{Source: f.outbox}
	from.failing.Store(true)
	d := f.drainer(from, f.ledger)
	if err := d.runOnce(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	counted(t, d, 0, 0, 0, 2, 0)
	from.failing.Store(false)
	from.backlog.Store(true)
	if err := d.runOnce(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	f.holds(t, 25)
	counted(t, d, 25, 0, 0, 3, 0)
}

// A stop does not wait for a ledger that hangs, and gives nothing up.
func TestStop(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(t, 25)
	ctx, stop := context.WithCancel(t.Context())
	began := make(chan struct{}, 1)
	d := f.drainer(f.outbox, &sink{appender: f.ledger, before: func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}})
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	<-began
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
	until(t, "the locks are given back", func() bool { return f.drainer(f.outbox, f.ledger).runOnce(t.Context()) == nil && f.waiting(t) == 0 })
	f.holds(t, 25)
}

// A ledger that hangs is given up after a while.
func TestTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(t, 5)
	d := f.drainer(f.outbox, &sink{appender: f.ledger, before: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	d.cfg.Timeout = 300 * time.Millisecond
	if err := d.runOnce(t.Context()); !errors.Is(err, context.DeadlineExceeded) || f.waiting(t) != 5 {
		t.Errorf("%v, %d left", err, f.waiting(t))
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Config{{}, {Every: 1, Timeout: 1, RetryMax: 1}, {Batch: 1}, {Every: 1, Timeout: 1, RetryMax: 1, Batch: 50_001}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
	NewDrainer(cfg, "", nil, Sink[store.Event]{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}
