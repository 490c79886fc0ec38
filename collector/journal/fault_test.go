package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// faultDisk fails an operation when fail says so. A failing write has written
// half of its bytes; a failing sync has lost all bytes since the last good one,
// and later syncs of the same file succeed, as Linux does it.
type faultDisk struct {
	osDisk
	mu   sync.Mutex
	fail func(op, name string) error
}

func (d *faultDisk) set(fail func(op, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = fail
}

func (d *faultDisk) check(op, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail == nil {
		return nil
	}
	return d.fail(op, filepath.Base(path))
}

// failing fails one operation on segments with an error.
func failing(op string, err error) func(string, string) error {
	return func(o, name string) error {
		if o == op && (op == "syncdir" || strings.Contains(name, segmentSuffix)) {
			return err
		}
		return nil
	}
}

func (d *faultDisk) Create(path string) (writeFile, error) {
	if err := d.check("create", path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return &faultFile{File: f, disk: d}, err
}

func (d *faultDisk) Open(path string) (readFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &faultReader{File: f, disk: d}, nil
}

func (d *faultDisk) Rename(from, to string) error {
	return errors.Join(d.check("rename", from), d.osDisk.Rename(from, to))
}

func (d *faultDisk) Remove(path string) error {
	if err := d.check("remove", path); err != nil {
		return err
	}
	return d.osDisk.Remove(path)
}

func (d *faultDisk) Truncate(path string, n int64) error {
	if err := d.check("truncate", path); err != nil {
		return err
	}
	return d.osDisk.Truncate(path, n)
}

func (d *faultDisk) SyncDir(path string) error {
	return errors.Join(d.check("syncdir", path), d.osDisk.SyncDir(path))
}

type faultFile struct {
	*os.File
	disk         *faultDisk
	size, synced int64
}

func (f *faultFile) Write(b []byte) (int, error) {
	err := f.disk.check("write", f.Name())
	if err != nil {
		b = b[:len(b)/2]
	}
	n, werr := f.File.Write(b)
	f.size += int64(n)
	return n, errors.Join(err, werr)
}

func (f *faultFile) Sync() error {
	if err := f.disk.check("sync", f.Name()); err != nil {
		// The pages are clean now, and empty after the next boot.
		_, werr := f.File.WriteAt(make([]byte, f.size-f.synced), f.synced)
		f.synced = f.size
		return errors.Join(err, werr)
	}
	f.synced = f.size
	return nil
}

type faultReader struct {
	*os.File
	disk *faultDisk
}

func (f *faultReader) ReadAt(b []byte, off int64) (int, error) {
	if err := f.disk.check("read", f.Name()); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

// Whatever fails, on a fresh segment or in the middle of one, whether the clean-up
// works or not: the group is refused, later ones are stored elsewhere, and what
// was acknowledged is there, now and after a restart.
func TestFailedGroupIsRefusedAndTheNextStored(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "syncdir", "write", "sync"} {
		for _, cleanup := range []bool{true, false} {
			for before := range 3 {
				for times := 1; times <= 3; times++ {
					t.Run(fmt.Sprintf("%s/cleanup=%t/before=%d/times=%d", op, cleanup, before, times), func(t *testing.T) {
						t.Parallel()
						checkFailedGroup(t, op, cleanup, before, times)
					})
				}
			}
		}
	}
}

func checkFailedGroup(t *testing.T, op string, cleanup bool, before, times int) {
	cfg := small(t.TempDir())
	d := &faultDisk{}
	j := openTest(t, cfg, d)
	want := numbered(1, before)
	appendTest(t, j, want...)
	if before > 0 && (op == "create" || op == "syncdir") {
		j.mu.Lock()
		j.rotate = true
		j.mu.Unlock()
	}
	d.set(func(o, name string) error {
		if !cleanup && (o == "remove" || o == "truncate") {
			return syscall.EIO
		}
		return failing(op, syscall.ENOSPC)(o, name)
	})
	for range times {
		err := j.Append(t.Context(), []byte("refused"))
		if !errors.Is(err, ErrDisk) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("append on a failing disk: %v", err)
		}
	}
	d.set(nil)
	appendTest(t, j, "later", "last")
	want = append(want, "later", "last")
	if got, _ := drain(t, j); !cmp.Equal(want, got) {
		t.Errorf("read %q", got)
	}
	sum := 0.0
	for _, o := range []string{opCreate, opWrite, opSync} {
		sum += testutil.ToFloat64(j.metrics.diskErrors.WithLabelValues(o))
	}
	if sum != float64(times) {
		t.Errorf("%v disk errors counted", sum)
	}
	closeTest(t, j)

	j = openTest(t, cfg, osDisk{})
	if got, _ := drain(t, j); !cmp.Equal(want, got) {
		t.Errorf("read %q after a restart", got)
	}
	for _, c := range []float64{testutil.ToFloat64(j.metrics.corruptSegments), testutil.ToFloat64(j.metrics.lostRecords)} {
		if c != 0 {
			t.Error("the remains of a failed group look like damage")
		}
	}
}

// The process dies right after a failed write: nothing tells where the durable
// part ends but the bytes themselves.
func TestCrashAfterAFailedGroup(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "syncdir", "write", "sync"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			cfg := small(t.TempDir())
			d := &faultDisk{}
			j := openTest(t, cfg, d)
			want := numbered(1, 3)
			appendTest(t, j, want...)
			d.set(func(o, name string) error {
				if o == "remove" || o == "truncate" {
					return syscall.EIO
				}
				return failing(op, syscall.EIO)(o, name)
			})
			if op == "create" || op == "syncdir" {
				j.mu.Lock()
				j.rotate = true
				j.mu.Unlock()
			}
			if err := j.Append(t.Context(), []byte("refused")); !errors.Is(err, ErrDisk) {
				t.Fatal(err)
			}
			closeTest(t, j)
			j = openTest(t, cfg, osDisk{})
			appendTest(t, j, "after")
			if got, _ := drain(t, j); !cmp.Equal(append(want, "after"), got) {
				t.Errorf("read %q", got)
			}
		})
	}
}

func TestReadErrorsAreReportedThenSkipped(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	names, _ := written(t, cfg, numbered(1, 40))
	d := &faultDisk{}
	j := openTest(t, cfg, d)
	d.set(func(op, name string) error {
		if op == "read" && name == names[1] {
			return syscall.EIO
		}
		return nil
	})
	failed, n := 0, 0
	for j.reader.next < j.next {
		b, err := j.Next(t.Context())
		if err != nil {
			failed++
		}
		n += len(b.Records)
	}
	lost := int(testutil.ToFloat64(j.metrics.lostRecords))
	if failed != readErrors || lost == 0 || n+lost != 40 {
		t.Errorf("%d errors, %d read, %d lost", failed, n, lost)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, names[1]+corruptSuffix)); err != nil {
		t.Error(err)
	}
}

func TestFailedCommitIsMadeUpFor(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "write", "sync", "rename", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			cfg := small(t.TempDir())
			d := &faultDisk{}
			j := openTest(t, cfg, d)
			appendTest(t, j, numbered(1, 40)...)
			_, last := drain(t, j)
			d.set(func(o, _ string) error {
				if o == op {
					return syscall.EIO
				}
				return nil
			})
			segments := j.Stats().Segments
			if err := j.Commit(20); !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			if n := j.Stats().Segments; n != segments {
				t.Error("segments were removed before the position was durable")
			}
			d.set(nil)
			if err := j.Commit(last); err != nil {
				t.Fatal(err)
			}
			closeTest(t, j)
			j = openTest(t, cfg, osDisk{})
			if s := j.Stats(); s.Committed != last || s.PendingRecords != 0 {
				t.Errorf("after restart: %+v", s)
			}
		})
	}
}

// The last process may have died between write and fsync, so what it left is
// only in the page cache: it must be durable before it is handed out, else a
// commit could outlive its record.
func TestStartSyncsTheLastSegment(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	names, _ := written(t, cfg, numbered(1, 3))
	d := &faultDisk{}
	d.set(func(op, name string) error {
		if op == "truncate" && name == names[0] {
			return syscall.EIO
		}
		return nil
	})
	_, err := open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), d)
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("a start that cannot sync: %v", err)
	}
}
