package chdb

import (
	"io"
	"runtime"
	"time"
	"unsafe"
)

// Stats is what the engine counted for a statement, or so far.
type Stats struct {
	ResultRows, ResultBytes   uint64 // rows and in-memory bytes of the result
	ReadRows, ReadBytes       uint64 // read from storage
	WrittenRows, WrittenBytes uint64 // written, materialized views included
	Elapsed                   time.Duration
}

func (s *Stats) add(o Stats) {
	s.ResultRows += o.ResultRows
	s.ResultBytes += o.ResultBytes
	s.ReadRows += o.ReadRows
	s.ReadBytes += o.ReadBytes
	s.WrittenRows += o.WrittenRows
	s.WrittenBytes += o.WrittenBytes
	s.Elapsed += o.Elapsed
}

func (c *Conn) stats(result unsafe.Pointer) Stats {
	return Stats{
		ResultRows: c.sym.resultRows(result), ResultBytes: c.sym.resultBytes(result),
		ReadRows: c.sym.resultRowsRead(result), ReadBytes: c.sym.resultBytesRead(result),
		WrittenRows: c.sym.resultRowsWritten(result), WrittenBytes: c.sym.resultBytesWritten(result),
		Elapsed: time.Duration(c.sym.resultElapsed(result) * float64(time.Second)),
	}
}

// Rows is a result that arrives in chunks, so that memory stays bounded. It
// must be closed.
type Rows struct {
	c      *Conn
	stream unsafe.Pointer
	chunk  unsafe.Pointer
	whole  unsafe.Pointer // a result that is not a stream
	total  Stats
	ended  bool
}

// Query starts a statement. Until the Rows are closed the connection accepts
// nothing else.
func (c *Conn) Query(st Statement) (*Rows, error) {
	if c.handle == nil {
		return nil, ErrClosed
	}
	stream := c.sym.call(c.sym.streamQuery, c.conn(), st)
	if err := c.resultError(stream); err != nil {
		if stream != nil {
			c.sym.destroyResult(stream)
		}
		return nil, err
	}
	return &Rows{c: c, stream: stream}, nil
}

// Next returns the next bytes of the formatted result, valid until the next
// call or Close, or io.EOF. Chunks may end anywhere.
func (r *Rows) Next() ([]byte, error) {
	r.free()
	if r.ended {
		return nil, io.EOF
	}
	if r.whole != nil {
		r.chunk, r.whole = r.whole, nil
		r.total = r.c.stats(r.chunk)
		r.ended = true
		if b := r.c.bytes(r.chunk); len(b) > 0 {
			return b, nil
		}
		return nil, io.EOF
	}
	r.chunk = r.c.sym.fetch(r.c.conn(), r.stream)
	if err := r.c.resultError(r.chunk); err != nil {
		r.ended = true
		return nil, err
	}
	r.total.add(r.c.stats(r.chunk))
	b := r.c.bytes(r.chunk)
	if len(b) == 0 {
		r.ended = true
		return nil, io.EOF
	}
	return b, nil
}

// Stats counts what has been fetched so far.
func (r *Rows) Stats() Stats { return r.total }

// Close cancels what is still running and frees the result.
func (r *Rows) Close() error {
	r.free()
	if r.whole != nil {
		r.c.sym.destroyResult(r.whole)
		r.whole = nil
	}
	if r.stream == nil {
		return nil
	}
	if !r.ended {
		r.c.sym.cancel(r.c.conn(), r.stream)
	}
	r.c.sym.destroyResult(r.stream)
	r.stream = nil
	return nil
}

func (r *Rows) free() {
	if r.chunk != nil {
		r.c.sym.destroyResult(r.chunk)
		r.chunk = nil
	}
}

// Whole runs any statement and returns its result as one chunk, which may be
// empty. Data inline in an INSERT is cut at a semicolon: use Insert for data.
func (c *Conn) Whole(st Statement) (*Rows, error) {
	if c.handle == nil {
		return nil, ErrClosed
	}
	result := c.sym.call(c.sym.query, c.conn(), st)
	if err := c.resultError(result); err != nil {
		if result != nil {
			c.sym.destroyResult(result)
		}
		return nil, err
	}
	return &Rows{c: c, whole: result}, nil
}

// Insert is a running INSERT that takes its data in pieces. It must be
// closed; without Done it is cancelled then.
type Insert struct {
	c      *Conn
	stream unsafe.Pointer
	done   bool
}

// Insert starts an INSERT statement without FORMAT clause and data; the data
// follows through Write in st.Format.
func (c *Conn) Insert(st Statement) (*Insert, error) {
	if c.handle == nil {
		return nil, ErrClosed
	}
	i := &Insert{c: c, stream: c.sym.call(c.sym.insert, c.conn(), st)}
	if err := i.err(); err != nil {
		_ = i.Close()
		return nil, err
	}
	return i, nil
}

// Write appends data, which may be cut anywhere. It blocks while the engine
// is behind.
func (i *Insert) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	state := i.c.sym.append(i.stream, unsafe.Pointer(&p[0]), uint(len(p)))
	runtime.KeepAlive(p)
	if state != 0 {
		if err := i.err(); err != nil {
			return 0, err
		}
		return 0, &Error{Message: "the insert no longer takes data"}
	}
	return len(p), nil
}

// Done ends the data and commits. Success means that the engine has the rows.
func (i *Insert) Done() (Stats, error) {
	i.done = true
	result := i.c.sym.done(i.stream)
	if err := i.c.resultError(result); err != nil {
		if result != nil {
			i.c.sym.destroyResult(result)
		}
		return Stats{}, err
	}
	defer i.c.sym.destroyResult(result)
	return i.c.stats(result), nil
}

// Close frees the stream and cancels the insert unless Done was called.
func (i *Insert) Close() error {
	if i.stream == nil {
		return nil
	}
	if !i.done {
		i.c.sym.cancelInsert(i.stream)
	}
	i.c.sym.destroyInsert(i.stream)
	i.stream = nil
	return nil
}

func (i *Insert) err() error {
	if text := i.c.sym.insertError(i.stream); text != "" {
		return parseError(text)
	}
	return nil
}
