package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// maxPartitionsPerInsert bounds how many months one insert may touch: each
// becomes a part of its own, and ClickHouse refuses a block over its limit for
// ever (collector-contrib#43599).
const maxPartitionsPerInsert = 64

// column is one column of an insert: its name and how its values follow from
// the rows. Whole columns go to the driver at once: an append per row costs
// three times as much.
type column[T any] struct {
	name   string
	values func(rows []T) any
}

// insertBlock is how many rows one block of a large insert has. Blocks are
// written side by side: ClickHouse sorts, compresses and syncs each on one core.
const insertBlock = 25_000

// insertBlocks writes rows into table in blocks of bounded size and in no more
// partitions than one insert may touch. Some may be written when it fails.
func insertBlocks[T any](ctx context.Context, s *Store, table string, columns []column[T], rows []T, at func(*T) time.Time) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for _, months := range byMonth(rows, at) {
		for block := range slices.Chunk(months, insertBlock) {
			g.Go(func() error { return insert(ctx, s, table, columns, block) })
		}
	}
	return g.Wait()
}

// byMonth splits rows so that none touches more partitions than one insert may.
func byMonth[T any](rows []T, at func(*T) time.Time) [][]T {
	months := map[int]int{}
	month := func(r *T) int { t := at(r).UTC(); return t.Year()*12 + int(t.Month()) }
	for i := range rows {
		if m := month(&rows[i]); months[m] == 0 {
			months[m] = len(months)/maxPartitionsPerInsert + 1
		}
	}
	if len(months) <= maxPartitionsPerInsert {
		return [][]T{rows}
	}
	out := make([][]T, (len(months)+maxPartitionsPerInsert-1)/maxPartitionsPerInsert)
	for i := range rows {
		g := months[month(&rows[i])] - 1
		out[g] = append(out[g], rows[i])
	}
	return out
}

// insert writes rows into table in one block.
func insert[T any](ctx context.Context, s *Store, table string, columns []column[T], rows []T) error {
	if len(rows) == 0 {
		return nil
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	batch, err := s.conn.PrepareBatch(ctx, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+")")
	if err != nil {
		return fmt.Errorf("preparing an insert into %s: %w", table, err)
	}
	for i, c := range columns {
		if err := batch.Column(i).Append(c.values(rows)); err != nil {
			return fmt.Errorf("appending %s.%s: %w", table, c.name, err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("inserting into %s: %w", table, err)
	}
	return nil
}

// each maps a column's values row by row.
func each[T, V any](name string, value func(*T) V) column[T] {
	return column[T]{name, func(rows []T) any {
		out := make([]V, len(rows))
		for i := range rows {
			out[i] = value(&rows[i])
		}
		return out
	}}
}

// constant is a column with one value.
func constant[T, V any](name string, v V) column[T] {
	return each(name, func(*T) V { return v })
}

// money is a nullable column of nano-dollars; its values share one allocation.
func money[T any](name string, value func(*T) usage.NullNano) column[T] {
	return column[T]{name, func(rows []T) any {
		backing, out := make([]int64, len(rows)), make([]*int64, len(rows))
		for i := range rows {
			if n := value(&rows[i]); n.Valid {
				backing[i] = int64(n.Nano)
				out[i] = &backing[i]
			}
		}
		return out
	}}
}

func id[T any](name string, value func(*T) usage.ID) column[T] {
	return each(name, func(r *T) uuid.UUID { return uuid.UUID(value(r)) })
}

func asFlag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
