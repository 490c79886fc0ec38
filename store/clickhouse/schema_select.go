package clickhouse

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Reader runs queries that come from outside of this package, such as those of
// dashboards. It changes no setting, which an account that may only read the
// published views is not allowed to. It is safe for concurrent use.
type Reader struct{ conn driver.Conn }

// Reader returns a reader with connections of its own, of the store's account. It
// connects when it is first used; close it after use.
func (s *Store) Reader() (*Reader, error) {
	o := *s.options
	o.Settings = nil
	conn, err := clickhouse.Open(&o)
	if err != nil {
		return nil, fmt.Errorf("opening ClickHouse: %w", err)
	}
	return &Reader{conn}, nil
}

// Close closes the connections.
func (r *Reader) Close() error { return r.conn.Close() }

// Selection is the answer to a query.
type Selection struct {
	Columns []string
	// Types are ClickHouse's names of the columns' types.
	Types []string
	// Rows hold values of the driver's types; what is nullable is a pointer.
	Rows [][]any
}

// selectTimeout bounds one query.
const selectTimeout = time.Minute

// Select runs one SELECT for at most a minute, and returns [ErrTooManyRows] beyond
// maxRows. What it may read and write is the account's affair: the text must be
// the program's own.
func (r *Reader) Select(ctx context.Context, sql string, maxRows int) (*Selection, error) {
	ctx, cancel := context.WithTimeout(ctx, selectTimeout)
	defer cancel()
	rows, err := r.conn.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("selecting: %w", err)
	}
	defer rows.Close()
	out := &Selection{Columns: rows.Columns()}
	var scan []reflect.Type
	for _, t := range rows.ColumnTypes() {
		out.Types = append(out.Types, t.DatabaseTypeName())
		scan = append(scan, t.ScanType())
	}
	for rows.Next() {
		if len(out.Rows) == maxRows {
			return nil, ErrTooManyRows
		}
		dest := make([]any, len(scan))
		for i, t := range scan {
			dest[i] = reflect.New(t).Interface()
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, fmt.Errorf("reading a row: %w", err)
		}
		for i, d := range dest {
			dest[i] = reflect.ValueOf(d).Elem().Interface()
		}
		out.Rows = append(out.Rows, dest)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("selecting: %w", err)
	}
	return out, nil
}
