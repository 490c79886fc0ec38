package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// link leads to ClickHouse and can be cut.
type link struct {
	address, to string

	mu    sync.Mutex
	lis   net.Listener
	conns []net.Conn
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l := &link{address: "127.0.0.1:0", to: to}
	l.mend(t)
	t.Cleanup(l.cut)
	return l
}

func (l *link) mend(t *testing.T) {
	t.Helper()
	lis, err := net.Listen("tcp", l.address)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lis, l.address = lis, lis.Addr().String()
	go func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return // cut
			}
			l.serve(in, lis)
		}
	}()
}

func (l *link) serve(in net.Conn, lis net.Listener) {
	out, err := net.Dial("tcp", l.to)
	if err != nil {
		in.Close() //nolint:errcheck // whoever called sees it closed
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lis != lis {
		in.Close()  //nolint:errcheck // cut meanwhile
		out.Close() //nolint:errcheck // likewise
		return
	}
	l.conns = append(l.conns, in, out)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // ends when either is closed
			way[0].Close()                 //nolint:errcheck // its end is all that matters
		}()
	}
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lis == nil {
		return
	}
	l.lis.Close() //nolint:errcheck // nobody else does
	for _, c := range l.conns {
		c.Close() //nolint:errcheck // it may be closed already
	}
	l.lis, l.conns = nil, nil
}

func TestClickHouseAwayAndBack(t *testing.T) {
	t.Parallel()
	database := engines.Database(t)
	link := newLink(t, engines.ClickHouse(t).Addr)
	direct, l := openLedger(t, database, engines.ClickHouse(t).Addr), openLedger(t, database, link.address)
	w, log := newWatcher(t, l, nil)
	attempt := func() error {
		err := w.refresh(t.Context())
		w.note(t.Context(), err)
		return err
	}

	link.cut()
	for range 3 {
		if err := attempt(); err == nil || w.Snapshot() != nil {
			t.Fatalf("without ClickHouse at the start: error %v, snapshot %v", err, w.Snapshot())
		}
	}
	if _, _, err := w.Lookup(t.Context(), "a"); !clickhouse.IsAway(err) {
		t.Errorf("looking up without ClickHouse: error %v", err)
	}
	direct.write(t, one(charge("1", "a", at(0), 1, usage.Labels{})), nil)
	link.mend(t)
	if err := attempt(); err != nil {
		t.Fatal(err)
	}
	l.agrees(t, "here at last", w.Snapshot())

	link.cut()
	before := w.Snapshot()
	direct.write(t, one(charge("2", "a", at(0), 2, usage.Labels{})), nil)
	direct.close(t)
	for range 3 {
		if err := attempt(); err == nil || w.Snapshot() != before {
			t.Fatalf("without ClickHouse: error %v, another snapshot %v", err, w.Snapshot() != before)
		}
	}
	link.mend(t)
	if err := attempt(); err != nil {
		t.Fatal(err)
	}
	l.agrees(t, "back", w.Snapshot())
	if n := testutil.ToFloat64(w.metrics.failures); n != 6 {
		t.Errorf("%v failures, want 6", n)
	}
	if warned, informed := log.lines("WARN"), log.lines("INFO"); warned != 2 || informed != 2 {
		t.Errorf("%d outages and %d recoveries logged, want 2 each", warned, informed)
	}
	if n := testutil.ToFloat64(w.metrics.rebuilds.WithLabelValues(atStart)); n != 1 {
		t.Errorf("everything was read %v times at the start, want once", n)
	}
}

var errInjected = errors.New("injected fault")

// faulty fails the nth query, before it runs or after it has.
type faulty struct {
	*ledger
	left  int
	after bool
}

func (f *faulty) fail(run func() error) error {
	f.left--
	switch {
	case f.left != 0:
		return run()
	case f.after:
		return errors.Join(run(), errInjected)
	}
	return errInjected
}

func (f *faulty) TaskMarks(ctx context.Context, since time.Time) (m clickhouse.TaskMarks, err error) {
	err = f.fail(func() error { m, err = f.ledger.TaskMarks(ctx, since); return err })
	return m, err
}

func (f *faulty) TaskSpend(ctx context.Context, q clickhouse.TaskQuery, use func(*clickhouse.TaskSpend)) error {
	return f.fail(func() error { return f.ledger.TaskSpend(ctx, q, use) })
}

func (f *faulty) TaskTurns(ctx context.Context, q clickhouse.TaskQuery, use func(*clickhouse.TaskTurns)) error {
	return f.fail(func() error { return f.ledger.TaskTurns(ctx, q, use) })
}

// Whichever query fails, the next refresh has what this one lacks.
func TestAnyQueryMayFail(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		l := newLedger(t)
		f := &faulty{ledger: l, after: after}
		w, _ := newWatcher(t, f, func(c *Config) { c.MaxTasks = 1 })
		old := charge("old", "b", noon.AddDate(0, 0, -9), 1, usage.Labels{})
		l.write(t, []usage.Charge{old, charge("new", "a", at(0), 1, usage.Labels{})}, nil)
		for step := 1; step <= 12; step++ {
			moved := charge("moves", "a", at(time.Duration(-step)*time.Minute), 1, usage.Labels{})
			if step == 3 {
				old.Time, old.ID = at(0), usage.Hash("back")
				l.write(t, one(old), nil)
			}
			l.write(t, one(moved), nil)
			l.turn(t, []usage.Activity{turns(fmt.Sprint(step), "a", "ok", moved.Time, 1), turns("old", "b", "ok", at(-time.Hour), uint64(step))}, nil)
			f.left = step
			err := w.refresh(t.Context())
			if err != nil && !errors.Is(err, errInjected) {
				t.Fatal(err)
			}
			f.left = 0
			s := refresh(t, w)
			for name, want := range l.expected(t, l.now) {
				if got, in := s.Task(name); in && !reflect.DeepEqual(got, want) || !in && !s.dropped.has(name) || !in && step > 3 {
					t.Errorf("step %d, after %v: %s in memory: %v, %+v, want %+v", step, after, name, in, got, want)
				}
			}
		}
	}
}

func TestMarksThatMayBeGone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	w, _ := newWatcher(t, l, nil)
	l.write(t, one(charge("1", "a", at(0), 1, usage.Labels{})), nil)
	refresh(t, w)
	for i, leap := range []time.Duration{marksKept - time.Minute, marksKept + time.Minute, -3 * time.Hour} {
		l.pass(leap)
		l.agrees(t, leap.String(), refresh(t, w))
		if n := testutil.ToFloat64(w.metrics.rebuilds.WithLabelValues(afterGap)); n != float64(i) {
			t.Errorf("after %v everything was read %v times, want %d", leap, n, i)
		}
	}
}
