package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".wal"
	corruptSuffix = ".corrupt"
)

// segment is what is known about one file of the log.
type segment struct {
	index   uint64 // order of creation
	base    uint64 // number of its first record
	salt    uint32
	path    string
	size    int64  // bytes that are durable and may be read
	end     uint64 // number after its last record
	corrupt bool   // set aside: read on, never deleted or cut
	sealed  bool   // no longer written to
}

func segmentName(index, base uint64, salt uint32) string {
	return fmt.Sprintf("%010d-%020d-%08x%s", index, base, salt, segmentSuffix)
}

// parseSegment reads a file name; ok is false for files that are no segments.
func parseSegment(dir, name string) (s *segment, ok bool) {
	stem, corrupt := strings.CutSuffix(name, corruptSuffix)
	stem, isSegment := strings.CutSuffix(stem, segmentSuffix)
	parts := strings.Split(stem, "-")
	if !isSegment || len(parts) != 3 {
		return nil, false
	}
	index, err1 := strconv.ParseUint(parts[0], 10, 64)
	base, err2 := strconv.ParseUint(parts[1], 10, 64)
	salt, err3 := strconv.ParseUint(parts[2], 16, 32)
	if err1 != nil || err2 != nil || err3 != nil || base == 0 {
		return nil, false
	}
	return &segment{
		index: index, base: base, salt: uint32(salt),
		path: filepath.Join(dir, name), corrupt: corrupt,
	}, true
}

// listSegments returns the segments of a folder in order of creation, with
// their file sizes, those set aside included.
func listSegments(d disk, dir string) ([]*segment, error) {
	entries, err := d.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing segments: %w", err)
	}
	var segments []*segment
	for _, e := range entries {
		s, ok := parseSegment(dir, e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("reading the size of a segment: %w", err)
		}
		s.size = info.Size()
		segments = append(segments, s)
	}
	slices.SortFunc(segments, func(a, b *segment) int { return cmp.Compare(a.index, b.index) })
	for i := 1; i < len(segments); i++ {
		if prev, s := segments[i-1], segments[i]; s.base < prev.base {
			return nil, fmt.Errorf("segment %s begins before %s: files of two journals are mixed",
				filepath.Base(s.path), filepath.Base(prev.path))
		}
	}
	return segments, nil
}

// readSegment reads a whole segment into memory.
func readSegment(d disk, s *segment) ([]byte, error) {
	f, err := d.Open(s.path)
	if err != nil {
		return nil, fmt.Errorf("opening a segment: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	data := make([]byte, s.size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading segment %s: %w", filepath.Base(s.path), err)
	}
	return data[:n], nil
}
