package clickhouse

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Selection is the answer to a query that came from outside of this package.
type Selection struct {
	Columns []string
	// Types are ClickHouse's names of the columns' types.
	Types []string
	// Rows hold values of the driver's types; what is nullable is a pointer.
	Rows [][]any
}

// Select runs one SELECT that may write nothing, for at most a minute, and
// returns [ErrTooManyRows] beyond maxRows.
func (s *Store) Select(ctx context.Context, sql string, maxRows int) (*Selection, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// 1 would forbid the settings that the driver sends along.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"readonly": 2, "max_execution_time": 60}))
	out := &Selection{}
	var scan []reflect.Type
	err := s.query(ctx, "select", sql, nil, func(rows driver.Rows) error {
		if len(out.Rows) == maxRows {
			return ErrTooManyRows
		}
		if out.Columns == nil {
			out.Columns = rows.Columns()
			for _, t := range rows.ColumnTypes() {
				out.Types = append(out.Types, t.DatabaseTypeName())
				scan = append(scan, t.ScanType())
			}
		}
		dest := make([]any, len(scan))
		for i, t := range scan {
			dest[i] = reflect.New(t).Interface()
		}
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("reading a row: %w", err)
		}
		row := make([]any, len(dest))
		for i, d := range dest {
			row[i] = reflect.ValueOf(d).Elem().Interface()
		}
		out.Rows = append(out.Rows, row)
		return nil
	})
	return out, err
}
