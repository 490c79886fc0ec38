package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// child is the bridge in a process of its own.
type child struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	address string
	exited  chan error
}

func startChild(t testing.TB, data string) *child {
	t.Helper()
	lib, err := chdb.Locate()
	if err != nil {
		t.Skip(err)
	}
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0]), exited: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), "BRIDGE_TEST_CHILD="+data, "BRIDGE_TEST_LIB="+lib)
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the child said nothing")
	}
	c.address = lines.Text()
	go func() { c.exited <- c.cmd.Wait() }()
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

func (c *child) connect(t testing.TB) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{c.address}, Protocol: clickhouse.HTTP,
		Auth: clickhouse.Auth{Database: "default", Username: "default", Password: ownerPassword},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// resident is the child's resident memory in bytes.
func (c *child) resident(t testing.TB) uint64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc on this system")
	}
	for line := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

func TestLargeResultIsStreamed(t *testing.T) {
	c := startChild(t, t.TempDir())
	conn := c.connect(t)
	before := c.resident(t)
	var peak atomic.Uint64
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				peak.Store(max(peak.Load(), c.resident(t)))
			}
		}
	})
	const want = 10_000_000
	rows, err := conn.Query(t.Context(), "SELECT number, toString(number) AS s, reverse(s) FROM numbers(10000000)")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	close(stop)
	group.Wait()
	if err := rows.Err(); err != nil || n != want {
		t.Fatal(n, err)
	}
	t.Logf("memory: %d MiB before, %d MiB at most", before>>20, peak.Load()>>20)
	// The result is 280 MB; four blocks in flight are a few.
	if grown := int64(peak.Load()) - int64(before); grown > 200<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

func TestKilledProcessKeepsAcknowledgedInserts(t *testing.T) {
	data := t.TempDir()
	c := startChild(t, data)
	conn := c.connect(t)
	ctx := t.Context()
	if err := conn.Exec(ctx, "CREATE TABLE t (a UInt64, b String) ENGINE = MergeTree ORDER BY a SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"); err != nil {
		t.Fatal(err)
	}
	var acknowledged atomic.Uint64
	var group sync.WaitGroup
	for worker := range 2 {
		group.Go(func() {
			for i := range 10000 {
				batch, err := conn.PrepareBatch(ctx, "INSERT INTO t (a, b)")
				if err != nil {
					return
				}
				for j := range 100 {
					_ = batch.Append(uint64(worker*1_000_000+i*100+j), "x;\x00")
				}
				if batch.Send() != nil {
					return
				}
				acknowledged.Add(100)
			}
		})
	}
	time.Sleep(1500 * time.Millisecond)
	_ = c.cmd.Process.Kill()
	group.Wait()
	if err := <-c.exited; err == nil {
		t.Error("a killed child ended well")
	}

	started := time.Now()
	c = startChild(t, data)
	t.Logf("restarted in %s", time.Since(started))
	var n uint64
	if err := c.connect(t).QueryRow(ctx, "SELECT uniqExact(a) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d acknowledged, %d found", acknowledged.Load(), n)
	if n < acknowledged.Load() || acknowledged.Load() == 0 {
		t.Errorf("%d rows were acknowledged, %d survived", acknowledged.Load(), n)
	}
	// A clean stop: the end of standard input, as when the parent dies.
	_ = c.stdin.Close()
	select {
	case err := <-c.exited:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the child outlived its parent's end of the pipe")
	}
}

func TestStopLetsQueriesFinish(t *testing.T) {
	c := startChild(t, t.TempDir())
	conn := c.connect(t)
	done := make(chan error, 1)
	go func() { done <- conn.Exec(t.Context(), "SELECT sleep(2)") }()
	time.Sleep(500 * time.Millisecond)
	_ = c.stdin.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-c.exited; err != nil {
		t.Error(err)
	}
	if resp, err := http.Get("http://" + c.address + "/ping"); err == nil {
		_ = resp.Body.Close()
		t.Error("still serving")
	}
}

// BenchmarkInsert is columnar inserts of 14 columns over two connections,
// client included.
func BenchmarkInsert(b *testing.B) {
	c := startChild(b, b.TempDir())
	conn := c.connect(b)
	ctx := b.Context()
	if err := conn.Exec(ctx, "CREATE TABLE t ("+
		"id String, ts DateTime64(3, 'UTC'), arrived DateTime64(3, 'UTC'), kind LowCardinality(String), repo LowCardinality(String), "+
		"model LowCardinality(String), task String, input UInt64, output UInt64, cache_read UInt64, cache_write UInt64, cost Int64, "+
		"feed LowCardinality(String), approximate Bool) ENGINE = MergeTree ORDER BY (ts, id) SETTINGS fsync_after_insert = 1"); err != nil {
		b.Fatal(err)
	}
	const rows = 100_000
	columns := benchmarkColumns(rows)
	batches := make(chan struct{})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for range batches {
				if err := sendColumns(ctx, conn, columns); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ResetTimer()
	for b.Loop() {
		batches <- struct{}{}
	}
	close(batches)
	group.Wait()
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(c.resident(b)>>20), "child-MiB")
	runtime.KeepAlive(columns)
}

func sendColumns(ctx context.Context, conn driver.Conn, columns []any) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
	if err != nil {
		return err
	}
	for i, c := range columns {
		if err := batch.Column(i).Append(c); err != nil {
			return err
		}
	}
	return batch.Send()
}

func benchmarkColumns(n int) []any {
	text := func(f func(int) string) (out []string) {
		for i := range n {
			out = append(out, f(i))
		}
		return out
	}
	number := func(f func(int) uint64) (out []uint64) {
		for i := range n {
			out = append(out, f(i))
		}
		return out
	}
	pick := func(words ...string) []string { return text(func(i int) string { return words[i%len(words)] }) }
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	times, cost, flags := make([]time.Time, n), make([]int64, n), make([]bool, n)
	for i := range n {
		times[i], cost[i], flags[i] = start.Add(time.Duration(i)*time.Second), int64(i*1000), i%2 == 0
	}
	return []any{
		text(func(i int) string { return fmt.Sprintf("req_%016x", i*7919) }), times, times, pick("implement", "review"), pick("a", "b", "c"),
		pick("opus", "sonnet"), text(func(i int) string { return fmt.Sprintf("task-%d", i%500) }),
		number(func(i int) uint64 { return uint64(i) }), number(func(i int) uint64 { return uint64(i % 99) }),
		number(func(i int) uint64 { return uint64(i * 3) }), number(func(int) uint64 { return 0 }), cost, pick("push"), flags,
	}
}
