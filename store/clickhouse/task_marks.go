package clickhouse

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// TaskMark is an attempt to write charges or turns of a bucket.
type TaskMark struct {
	Bucket time.Time
	Mark   uint64
	Open   bool // its rows may be written in part, or not at all
}

// TaskMarks are marks as they were at Now, by the server's clock.
type TaskMarks struct {
	Now   time.Time
	Marks []TaskMark
}

// TaskMarks returns every open mark, and every other one that changed at since
// or later; none if since is zero. A mark is written before and after the charges
// and turns that it speaks of, so what is read after this call returned includes
// those of every mark in the answer that is not open.
//
// A mark changes when its insert begins and is seen when that ends: who asks
// again and again must let the ranges overlap, by what an insert may take and
// the clocks of a cluster may differ.
func (s *Store) TaskMarks(ctx context.Context, since time.Time) (TaskMarks, error) {
	const q = `SELECT now64(3), groupArrayIf(bucket, seen), groupArrayIf(mark, seen), groupArrayIf(state, seen)
		FROM (
			SELECT bucket, mark, state, state = 0 OR changed >= fromUnixTimestamp64Milli(@since) AS seen
			FROM marks FINAL
		)`
	var (
		out     TaskMarks
		buckets []time.Time
		marks   []uint64
		states  []uint8
	)
	if since.IsZero() {
		since = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	row := s.conn.QueryRow(ctx, q, clickhouse.Named("since", since.UnixMilli()))
	if err := row.Scan(&out.Now, &buckets, &marks, &states); err != nil {
		return TaskMarks{}, fmt.Errorf("reading marks: %w", err)
	}
	out.Now = out.Now.UTC()
	out.Marks = make([]TaskMark, len(marks))
	for i := range marks {
		out.Marks[i] = TaskMark{buckets[i].UTC(), marks[i], states[i] == markOpen}
	}
	return out, nil
}
