package journal

import (
	"errors"
	"fmt"
	"time"
)

// Config configures a [Journal]. Start from [DefaultConfig].
type Config struct {
	// Dir is the folder of the segments, created if absent, used by nothing
	// else. Required.
	Dir string
	// MaxBytes bounds the segments on disk. Default 4 GiB. It may be exceeded by
	// one record. Space comes back a whole segment at a time. Too low: receivers
	// answer 503 early when the writer stalls. Too high: the disk fills first,
	// which is survived but seen only as failed appends. At least two segments.
	MaxBytes int64
	// SegmentBytes is the size at which a new segment is started. Default
	// 32 MiB. Too low: many files. Too high: space comes back late, and damage
	// sets more bytes aside. At most 1 GiB.
	SegmentBytes int64
	// MaxRecordBytes bounds one record. Default 32 MiB, at most SegmentBytes.
	MaxRecordBytes int
	// GroupBytes bounds what is written with one fsync; a larger record is a
	// group of its own. Default 8 MiB, at most SegmentBytes. Too low: more
	// fsyncs under load. Too high: more memory and longer waits for small records.
	GroupBytes int
	// FullWait is how long an append waits for room. Default 2 s. Zero: not at
	// all. Too high: requests pile up in memory while the writer stalls.
	FullWait time.Duration
	// BatchBytes bounds the bytes that Next returns at once; a larger record is
	// returned alone. Default 8 MiB. It is the reader's memory, too.
	BatchBytes int
	// BatchRecords bounds the records that Next returns at once. Default 10 000.
	BatchRecords int
}

// DefaultConfig returns the defaults for a journal in dir.
func DefaultConfig(dir string) Config {
	return Config{
		Dir:            dir,
		MaxBytes:       4 << 30,
		SegmentBytes:   32 << 20,
		MaxRecordBytes: 32 << 20,
		GroupBytes:     8 << 20,
		FullWait:       2 * time.Second,
		BatchBytes:     8 << 20,
		BatchRecords:   10_000,
	}
}

// maxSegmentBytes keeps offsets, one record over the limit included, within the
// 32 bits that a frame has for them.
const maxSegmentBytes = 1 << 30

// Validate reports every field that cannot work.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Dir != "", "journal: a folder is required")
	check(c.SegmentBytes > 0 && c.SegmentBytes <= maxSegmentBytes,
		"journal: segment bytes must be in 1…%d, not %d", maxSegmentBytes, c.SegmentBytes)
	check(c.MaxBytes >= 2*c.SegmentBytes,
		"journal: max bytes must hold two segments of %d, not %d", c.SegmentBytes, c.MaxBytes)
	check(c.MaxRecordBytes > 0 && int64(c.MaxRecordBytes) <= c.SegmentBytes,
		"journal: max record bytes must be in 1…%d (a segment), not %d", c.SegmentBytes, c.MaxRecordBytes)
	check(c.GroupBytes > 0 && int64(c.GroupBytes) <= c.SegmentBytes,
		"journal: group bytes must be in 1…%d (a segment), not %d", c.SegmentBytes, c.GroupBytes)
	check(c.FullWait >= 0, "journal: full wait must not be negative, but is %s", c.FullWait)
	check(c.BatchBytes > 0, "journal: batch bytes must be positive, not %d", c.BatchBytes)
	check(c.BatchRecords > 0, "journal: batch records must be positive, not %d", c.BatchRecords)
	return errors.Join(errs...)
}
