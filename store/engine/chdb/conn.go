package chdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unsafe"
)

// Conn is one connection: a session with its own settings, current database
// and temporary tables. It runs one statement at a time and is not safe for
// concurrent use.
type Conn struct {
	engine *Engine
	sym    *symbols
	handle unsafe.Pointer
}

// Close ends the session. Streams of the connection must be closed before.
func (c *Conn) Close() error {
	if c.handle == nil {
		return nil
	}
	c.sym.close(c.handle)
	c.handle = nil
	c.engine.release()
	return nil
}

// conn is the value behind the handle.
func (c *Conn) conn() unsafe.Pointer { return *(*unsafe.Pointer)(c.handle) }

// Exec runs a statement and returns a copy of its whole result. Data inline in
// an INSERT is cut at a semicolon: use Insert for data.
func (c *Conn) Exec(st Statement) ([]byte, Stats, error) {
	rows, err := c.Whole(st)
	if err != nil {
		return nil, Stats{}, err
	}
	defer rows.Close()
	b, err := rows.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, Stats{}, err
	}
	return bytes.Clone(b), rows.Stats(), nil
}

func (c *Conn) resultError(result unsafe.Pointer) error {
	if result == nil {
		return &Error{Message: "the library returned no result"}
	}
	if text := c.sym.resultError(result); text != "" {
		return parseError(text)
	}
	return nil
}

// bytes is the result's memory, valid until the result is destroyed.
func (c *Conn) bytes(result unsafe.Pointer) []byte {
	n := c.sym.resultLength(result)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(c.sym.resultBuffer(result)), n)
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// Class says what a statement does, by the engine's own parser, in ascending
// order of how restricted it is.
type Class uint32

// The classes of libchdb.
const (
	ReadOnly       Class = iota // leaves no trace: SELECT, SHOW, DESCRIBE, EXPLAIN, EXISTS
	Mutating                    // changes a database
	MutatingGlobal              // changes users, functions, named collections
	Control                     // SET, USE, SYSTEM, KILL, ATTACH, INTO OUTFILE
	Unknown                     // did not parse
)

// Analysis is what the engine's parser says about a text.
type Analysis struct {
	Class      Class
	Statements int
	HasSecrets bool // the text carries a credential
}

// Classify parses sql without running it.
func (c *Conn) Classify(sql string) (Analysis, error) {
	if c.handle == nil {
		return Analysis{}, ErrClosed
	}
	out := [4]uint32{16, 0, 0, uint32(Unknown)} // struct_size, statement_count, flags, class
	const database = "default"
	state := c.sym.classify(c.conn(), stringPointer(sql), uint(len(sql)), stringPointer(database), uint(len(database)), unsafe.Pointer(&out))
	runtime.KeepAlive(sql)
	if state != 0 {
		return Analysis{}, fmt.Errorf("classifying a statement: state %d", state)
	}
	return Analysis{Class: Class(out[3]), Statements: int(out[1]), HasSecrets: out[2]&1 != 0}, nil
}
