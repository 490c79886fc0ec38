package clickhouse

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// The states of a mark: see migrations/0003_rollup.sql.
const (
	markOpen    uint8 = 0
	markWritten uint8 = 1
	markClosed  uint8 = 2 // the 5-minute rollup has it
	markRolled  uint8 = 3 // the hourly rollup has it too
)

// AbandonedAfter is when an open mark is taken for one whose writer died. A
// writer that took longer than half of it leaves a second mark when it is
// done: see [Store.CompleteMarks].
const AbandonedAfter = 15 * time.Minute

type mark struct {
	bucket time.Time
	mark   uint64
}

// OpenMarks makes buckets dirty before rows of them are written. mark names
// the attempt and must be new.
func (s *Store) OpenMarks(ctx context.Context, id uint64, buckets []time.Time) error {
	return s.setMarks(ctx, markOpen, marksOf(id, buckets))
}

// CompleteMarks says that the rows of an attempt are written: a closer may now
// sum the buckets. The marks are given under a new name if the attempt took so
// long that they could have been taken for abandoned.
func (s *Store) CompleteMarks(ctx context.Context, id uint64, buckets []time.Time, took time.Duration, fresh uint64) error {
	if took > AbandonedAfter/2 {
		if err := s.setMarks(ctx, markWritten, marksOf(fresh, buckets)); err != nil {
			return err
		}
	}
	return s.setMarks(ctx, markWritten, marksOf(id, buckets))
}

func marksOf(id uint64, buckets []time.Time) []mark {
	out := make([]mark, len(buckets))
	for i, b := range buckets {
		out[i] = mark{b, id}
	}
	return out
}

func (s *Store) setMarks(ctx context.Context, state uint8, marks []mark) error {
	return insert(ctx, s, "marks", []column[mark]{
		each("bucket", func(m *mark) time.Time { return m.bucket }),
		each("mark", func(m *mark) uint64 { return m.mark }),
		constant[mark]("state", state),
	}, marks)
}

// dueMarks returns what may be closed: the groups (buckets or hours) and, for
// each, the marks that closing it would process. The query must read marks in
// a single scan: between two scans a new mark could be opened, and processing
// it would hide the rows that its writer is about to add.
func (s *Store) dueMarks(ctx context.Context, sql string, args ...any) (groups []time.Time, marks []mark, err error) {
	err = s.query(ctx, "marks", sql, args, func(rows driver.Rows) error {
		var (
			group   time.Time
			buckets []time.Time
			ids     []uint64
		)
		if err := rows.Scan(&group, &buckets, &ids); err != nil {
			return err
		}
		groups = append(groups, group)
		for i := range ids {
			marks = append(marks, mark{buckets[i], ids[i]})
		}
		return nil
	})
	return groups, marks, err
}

// DirtyBuckets is how many buckets are read from the charges.
func (s *Store) DirtyBuckets(ctx context.Context) (uint64, error) {
	var n uint64
	const q = `SELECT uniqExact(bucket) FROM marks FINAL WHERE state < 2`
	if err := s.conn.QueryRow(ctx, q).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting dirty buckets: %w", err)
	}
	return n, nil
}
