package bridge

import (
	"context"
	"io"
	"strings"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// insert runs an INSERT and feeds it the data.
func (x *execution) insert(ctx context.Context, head insertHead, data io.Reader) error {
	x.kind = "insert"
	if x.query.restricted || x.query.readonly {
		return exceptionf(codeReadonly, "Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. You should use method POST for modifying queries")
	}
	if head.format == "" {
		if head.format = "Values"; x.query.chosen {
			head.format = x.query.format
		}
	}
	ended, err := x.prepare(ctx, head.sql)
	if err != nil {
		return err
	}
	defer ended()
	if len(x.query.params) > 0 && head.format == "Values" {
		return cancelled(ctx, x.insertBound(ctx, head, data))
	}
	insert, err := x.conn.Insert(chdb.Statement{SQL: head.sql, Format: head.format, Params: x.query.params})
	if err != nil {
		return cancelled(ctx, err)
	}
	defer insert.Close()
	if err := feed(insert, data); err != nil {
		return cancelled(ctx, err)
	}
	if ctx.Err() != nil {
		return exceptionf(codeCancelled, "Query was cancelled")
	}
	if x.stats, err = insert.Done(); err != nil {
		return cancelled(ctx, err)
	}
	return x.empty(x.query.format)
}

// feed copies data into the insert.
func feed(insert *chdb.Insert, data io.Reader) error {
	buffer := make([]byte, copyBytes)
	for {
		n, err := fill(data, buffer)
		if n > 0 {
			if _, werr := insert.Write(buffer[:n]); werr != nil {
				// The reason is known only once the insert has ended.
				if _, derr := insert.Done(); derr != nil {
					return derr
				}
				return werr
			}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // one that wraps it is a body that was cut off
			return nil
		case err != nil:
			return readFailure(err)
		}
	}
}

// fill reads until the buffer is full. Unlike io.ReadFull it leaves the
// reader's error as it is, so that the end of a body can be told from a body
// that was cut off (io.ErrUnexpectedEOF).
func fill(r io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var m int
		m, err = r.Read(buffer[n:])
		n += m
	}
	return n, err
}

// insertBound runs INSERT … VALUES with placeholders among the values, which
// only a statement as a whole can bind.
func (x *execution) insertBound(ctx context.Context, head insertHead, data io.Reader) error {
	values, err := io.ReadAll(io.LimitReader(data, statementBytes+1))
	if err != nil {
		return readFailure(err)
	}
	text := strings.TrimRight(string(values), "; \t\r\n")
	if len(values) > statementBytes || strings.Contains(text, ";") {
		return exceptionf(codeNotImplemented, "INSERT with both parameters and a semicolon among its values is not supported by the embedded engine")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, x.stats, err = x.conn.Exec(chdb.Statement{SQL: head.sql + " VALUES " + text, Format: "Null", Params: x.query.params}); err != nil {
		return err
	}
	return x.empty(x.query.format)
}
