package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// written fills a journal, closes it, and returns the names and contents of its
// segments.
func written(t *testing.T, cfg Config, records []string) (names []string, files [][]byte) {
	t.Helper()
	j := openTest(t, cfg, osDisk{})
	appendTest(t, j, records...)
	closeTest(t, j)
	paths, err := filepath.Glob(filepath.Join(cfg.Dir, "*"+segmentSuffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		names, files = append(names, filepath.Base(p)), append(files, b)
	}
	return names, files
}

// rewritten puts files into a new folder and opens it.
func rewritten(t *testing.T, cfg Config, names []string, files [][]byte) *Journal {
	t.Helper()
	cfg.Dir = t.TempDir()
	for i, n := range names {
		if err := os.WriteFile(filepath.Join(cfg.Dir, n), files[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return openTest(t, cfg, osDisk{})
}

// frameEnds returns the offsets at which the frames of a segment end.
func frameEnds(t *testing.T, name string, data []byte) []int {
	t.Helper()
	s, ok := parseSegment("", name)
	if !ok {
		t.Fatalf("%s is no segment", name)
	}
	var ends []int
	for off := 0; off < len(data); {
		h, ok := newCodec(s.salt).completeFrame(data[off:])
		if !ok {
			t.Fatalf("bad frame at %d", off)
		}
		off += int(h.frameBytes())
		ends = append(ends, off)
	}
	return ends
}

// A write may be torn at any byte, and what follows may be missing, zeroes or
// garbage.
func TestTornTailIsCutAtEveryByte(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	cfg.SegmentBytes = 8 << 10
	records := numbered(1, 100)
	names, files := written(t, cfg, records)
	if len(names) != 2 {
		t.Fatalf("%d segments, the test wants 2", len(names))
	}
	full := files[1]
	ends := frameEnds(t, names[1], full)
	before := len(records) - len(ends)
	garbage := bytes.Repeat([]byte{0xa5}, len(full))
	tails := map[string][]byte{"cut": nil, "zeroes": make([]byte, len(full)), "garbage": garbage}
	for kind, tail := range tails {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for at := range len(full) {
				torn := slices.Clone(full[:at])
				if tail != nil {
					torn = append(torn, tail[at:]...)
				}
				whole := 0
				for whole < len(ends) && ends[whole] <= at {
					whole++
				}
				j := rewritten(t, cfg, names, [][]byte{files[0], torn})
				appendTest(t, j, "after")
				got, _ := drain(t, j)
				if d := cmp.Diff(append(slices.Clone(records[:before+whole]), "after"), got); d != "" {
					t.Fatalf("torn at %d: %s", at, d)
				}
				clean := tail == nil && (at == 0 || slices.Contains(ends, at))
				if n := testutil.ToFloat64(j.metrics.repaired); (n == 0) != clean {
					t.Fatalf("torn at %d: %v repairs", at, n)
				}
				if n := testutil.ToFloat64(j.metrics.corruptSegments); n != 0 {
					t.Fatalf("torn at %d: taken for damage", at)
				}
				closeTest(t, j)
			}
		})
	}
}

// Any damaged byte costs at most its own record, is counted, and keeps the file.
func TestDamageAnywhereKeepsEverythingElse(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	records := numbered(1, 40)
	names, files := written(t, cfg, records)
	if len(names) < 3 {
		t.Fatalf("%d segments, the test wants 3", len(names))
	}
	first := 0
	for i, data := range files {
		ends := frameEnds(t, names[i], data)
		record := first // of this segment's first frame
		t.Run(names[i], func(t *testing.T) {
			t.Parallel()
			for at := 0; at < len(data); at += 3 {
				hit := record
				for ends[hit-record] <= at {
					hit++
				}
				if hit == len(records)-1 {
					return // the last group: cannot be told from a torn tail
				}
				bad := slices.Clone(files)
				bad[i] = slices.Clone(data)
				bad[i][at] ^= 0x10
				checkDamaged(t, cfg, names, bad, i, append(slices.Clone(records[:hit]), records[hit+1:]...), 1)
			}
		})
		first += len(ends)
	}
}

// checkDamaged expects records back from a journal whose segment i is damaged,
// lost of them missing, also over a restart that reads them again.
func checkDamaged(t *testing.T, cfg Config, names []string, files [][]byte, i int, want []string, lost int) {
	t.Helper()
	j := rewritten(t, cfg, names, files)
	got, _ := drain(t, j)
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if n := testutil.ToFloat64(j.metrics.corruptSegments); n != 1 {
		t.Fatalf("%v damaged segments counted", n)
	}
	if n := testutil.ToFloat64(j.metrics.lostRecords); n != float64(lost) {
		t.Fatalf("%v lost records counted, want %d", n, lost)
	}
	closeTest(t, j)

	cfg.Dir = j.cfg.Dir
	j = openTest(t, cfg, osDisk{})
	appendTest(t, j, "after")
	got, last := drain(t, j)
	if d := cmp.Diff(append(slices.Clone(want), "after"), got); d != "" {
		t.Fatalf("after a restart: %s", d)
	}
	if err := j.Commit(last); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(cfg.Dir, names[i]+corruptSuffix))
	if err != nil || !bytes.Equal(kept, files[i]) {
		t.Fatalf("the damaged segment is not kept as it was: %v", err)
	}
	if s := j.Stats(); s.PendingRecords != 0 || s.Segments > 1 {
		t.Fatalf("after commit: %+v", s)
	}
	closeTest(t, j)

	j = openTest(t, cfg, osDisk{})
	if s := j.Stats(); s.PendingRecords != 0 || s.Bytes != 0 {
		t.Fatalf("a drained damaged segment came back: %+v", s)
	}
	closeTest(t, j)
}

func TestLargeDamage(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	records := numbered(1, 40)
	names, files := written(t, cfg, records)
	first := len(frameEnds(t, names[0], files[0]))
	second := len(frameEnds(t, names[1], files[1]))
	without := func(from, to int) []string {
		return append(slices.Clone(records[:from]), records[to:]...)
	}
	for name, tt := range map[string]struct {
		damage func([]byte) []byte
		want   []string
		lost   int
	}{
		"zeroed":   {func(b []byte) []byte { return make([]byte, len(b)) }, without(first, first+second), second},
		"emptied":  {func([]byte) []byte { return nil }, without(first, first+second), second},
		"shorter":  {func(b []byte) []byte { return b[:len(b)-1] }, without(first+second-1, first+second), 1},
		"hole":     {func(b []byte) []byte { clear(b[40:60]); return b }, without(first, first+1), 1},
		"inserted": {func(b []byte) []byte { return append([]byte("garbage"), b...) }, records, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := slices.Clone(files)
			bad[1] = tt.damage(slices.Clone(bad[1]))
			checkDamaged(t, cfg, names, bad, 1, tt.want, tt.lost)
		})
	}
}

// Nothing behind the damage would ever be committed: the space must come back
// all the same.
func TestUnreadableJournalDoesNotStayFull(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	cfg.MaxBytes, cfg.FullWait = 2<<10, 0
	names, files := written(t, cfg, numbered(1, 30))
	for i := range files[1:] {
		files[i] = bytes.Repeat([]byte{1}, 2<<10)
	}
	j := rewritten(t, cfg, names, files)
	if err := j.Append(t.Context(), nil); err == nil {
		t.Error("the journal is not full")
	}
	drained := make(chan []string)
	go func() {
		got, _ := drain(t, j)
		drained <- got
	}()
	for j.Stats().Bytes >= cfg.MaxBytes {
		time.Sleep(time.Millisecond)
	}
	appendTest(t, j, "room")
	if got := <-drained; len(got) == 0 {
		t.Error("nothing was read behind the damage")
	}
}

func TestMissingSegmentIsCounted(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	records := numbered(1, 40)
	names, files := written(t, cfg, records)
	first, second := len(frameEnds(t, names[0], files[0])), len(frameEnds(t, names[1], files[1]))
	j := rewritten(t, cfg, slices.Delete(names, 1, 2), slices.Delete(files, 1, 2))
	got, _ := drain(t, j)
	if d := cmp.Diff(slices.Delete(slices.Clone(records), first, first+second), got); d != "" {
		t.Error(d)
	}
	if n := testutil.ToFloat64(j.metrics.lostRecords); n != float64(second) {
		t.Errorf("%v lost records counted, want %d", n, second)
	}
}

func TestPositionFile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change  func(path string) error
		pending int64
	}{
		"as written":      {func(string) error { return nil }, 10},
		"absent":          {os.Remove, 12}, // what the oldest segment still has
		"empty":           {func(p string) error { return os.Truncate(p, 0) }, 12},
		"damaged":         {func(p string) error { return os.WriteFile(p, []byte("v1 39 00000000\n"), 0o600) }, 12},
		"stale temporary": {func(p string) error { return os.WriteFile(p+".tmp", []byte("v1"), 0o600) }, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := small(t.TempDir())
			j := openTest(t, cfg, osDisk{})
			for range 40 {
				appendTest(t, j, strings.Repeat("r", 100))
			}
			drain(t, j)
			if err := j.Commit(30); err != nil {
				t.Fatal(err)
			}
			closeTest(t, j)
			if err := tt.change(filepath.Join(cfg.Dir, positionName)); err != nil {
				t.Fatal(err)
			}
			j = openTest(t, cfg, osDisk{})
			if got := j.Stats().PendingRecords; got != tt.pending {
				t.Errorf("%d pending, want %d", got, tt.pending)
			}
			got, last := drain(t, j)
			if len(got) != int(tt.pending) || last != 40 {
				t.Errorf("read %d to %d", len(got), last)
			}
			if err := j.Commit(last); err != nil {
				t.Error(err)
			}
		})
	}
}

// A payload that contains a whole segment is not taken for records.
func TestPayloadThatLooksLikeFrames(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	_, files := written(t, cfg, []string{"one", "two", "three"})
	cfg.Dir = t.TempDir()
	names, evil := written(t, cfg, []string{string(files[0]), "tail", "end"})
	evil[0][0] ^= 1 // the header in front of the forged frames
	j := rewritten(t, cfg, names, evil)
	got, _ := drain(t, j)
	if d := cmp.Diff([]string{"tail", "end"}, got); d != "" {
		t.Error(d)
	}
}

// The base of a torn last segment proves that the one before it was durable to
// its end: a bad end there is damage, not another torn tail.
func TestBadEndBeforeAnEmptySegmentIsDamage(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir())
	records := numbered(1, 20)
	names, files := written(t, cfg, records)
	names, files = names[:2], files[:2]
	n := len(frameEnds(t, names[0], files[0]))
	files[0][len(files[0])-1] ^= 1
	files[1] = files[1][:10]
	j := rewritten(t, cfg, names, files)
	if c := testutil.ToFloat64(j.metrics.corruptSegments); c != 1 {
		t.Errorf("%v damaged segments counted", c)
	}
	appendTest(t, j, "after")
	got, last := drain(t, j)
	if d := cmp.Diff(append(slices.Clone(records[:n-1]), "after"), got); d != "" {
		t.Error(d)
	}
	if lost := testutil.ToFloat64(j.metrics.lostRecords); lost != 1 || last != Position(n+1) {
		t.Errorf("%v lost, last is %d", lost, last)
	}
}
