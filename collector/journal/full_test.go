package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestFullWaitsRefusesDrainsAccepts(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	cfg.MaxBytes = 4 << 10
	synctest.Test(t, func(t *testing.T) {
		j := openTest(t, cfg, osDisk{})
		defer closeTest(t, j)
		record := []byte(strings.Repeat("z", 200))
		stored := 0
		for ; ; stored++ {
			start := time.Now()
			err := j.Append(t.Context(), record)
			if err == nil {
				continue
			}
			if !errors.Is(err, ErrFull) || time.Since(start) != cfg.FullWait {
				t.Fatalf("full: %v after %s", err, time.Since(start))
			}
			break
		}
		if got := testutil.ToFloat64(j.metrics.full); got != 1 {
			t.Errorf("full counter is %v", got)
		}
		if s := j.Stats(); s.Bytes < cfg.MaxBytes || s.Bytes >= cfg.MaxBytes+232 || folderBytes(t, cfg.Dir) != s.Bytes {
			t.Errorf("full at %d of %d bytes, %d on disk", s.Bytes, cfg.MaxBytes, folderBytes(t, cfg.Dir))
		}

		// An append that waits gets in as soon as a segment is drained.
		start := time.Now()
		result := make(chan error)
		go func() { result <- j.Append(t.Context(), []byte("waited")) }()
		time.Sleep(cfg.FullWait / 2)
		var last Position
		for last < Position(stored/2) {
			b, err := j.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			last = b.Last
		}
		if err := j.Commit(last); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil || time.Since(start) != cfg.FullWait/2 {
			t.Errorf("append that waited: %v after %s", err, time.Since(start))
		}
		got, last := drain(t, j)
		if len(got) == 0 || got[len(got)-1] != "waited" || last != Position(stored+1) {
			t.Errorf("drained to %d of %d, last %q", last, stored+1, got[max(0, len(got)-1):])
		}
	})
}

// The bound holds however many callers push at once.
func TestBoundHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	cfg.MaxBytes, cfg.FullWait = 4<<10, 0
	j := openTest(t, cfg, osDisk{})
	results := make(chan error)
	for i := range 200 {
		go func() { results <- j.Append(t.Context(), fmt.Appendf(nil, "%100d", i)) }()
	}
	var stored, full int
	for range 200 {
		switch err := <-results; {
		case err == nil:
			stored++
		case errors.Is(err, ErrFull):
			full++
		default:
			t.Error(err)
		}
	}
	if b := folderBytes(t, cfg.Dir); full == 0 || b >= cfg.MaxBytes+132 || int64(stored)*132 != b {
		t.Errorf("%d stored, %d refused, %d bytes", stored, full, b)
	}
}

func TestCloseReleasesWhoWaitsForRoom(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	cfg.MaxBytes, cfg.FullWait = 2<<10, time.Hour
	synctest.Test(t, func(t *testing.T) {
		j := openTest(t, cfg, osDisk{})
		result := make(chan error)
		go func() {
			var err error
			for err == nil {
				err = j.Append(t.Context(), make([]byte, 500))
			}
			result <- err
		}()
		time.Sleep(time.Minute)
		closeTest(t, j)
		if err := <-result; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// folderBytes sums the segments on disk.
func folderBytes(t testing.TB, dir string) (sum int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}
