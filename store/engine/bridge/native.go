package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The engine writes Native blocks as of protocol revision 0. A client that
// names its revision (client_protocol_version) expects two additions: a block
// info before each block (any revision), and from revision 54454 on one byte
// after each column's type that says whether its serialization is a custom
// one. reframer adds both and leaves the columns' bytes as they are.
const revisionCustomSerialization = 54454

// blockInfo is what ClickHouse's BlockInfo writes: field 1 is_overflows =
// false, field 2 bucket_num = -1, end.
const blockInfo = "\x01\x00\x02\xff\xff\xff\xff\x00"

// errShort means that a block's end has not arrived yet.
var errShort = errors.New("native block is incomplete")

type reframer struct {
	w        io.Writer
	revision int
	rest     []byte // the beginning of a block whose end is still to come
	columns  map[string]columnLayout
}

func newReframer(w io.Writer, revision int) *reframer {
	return &reframer{w: w, revision: revision, columns: map[string]columnLayout{}}
}

// Write takes Native bytes of revision 0, cut anywhere.
func (r *reframer) Write(p []byte) (int, error) {
	b := p
	if len(r.rest) > 0 {
		b = append(r.rest, p...)
	}
	for len(b) > 0 {
		n, err := r.block(b)
		if errors.Is(err, errShort) {
			break
		}
		if err != nil {
			return 0, err
		}
		b = b[n:]
	}
	r.rest = append(r.rest[:0:0], b...)
	return len(p), nil
}

// Close reports a block that never ended.
func (r *reframer) Close() error {
	if len(r.rest) > 0 {
		return errShort
	}
	return nil
}

// span is a part of a block; a column's ends with its type.
type span struct{ header, data []byte }

// block writes the first block of b and returns its length.
func (r *reframer) block(b []byte) (int, error) {
	c := &cursor{b: b}
	columns, rows := c.uvarint(), c.uvarint()
	if err := c.state(); err != nil {
		return 0, err
	}
	dimensions := b[:c.at]
	if columns > uint64(len(b)) {
		return 0, errShort
	}
	spans := make([]span, 0, columns)
	for range columns {
		start := c.at
		c.string()
		name := c.string()
		typed := c.at
		if err := c.state(); err != nil {
			return 0, err
		}
		if rows > 0 {
			layout, err := r.layout(string(name))
			if err != nil {
				return 0, err
			}
			layout.prefix(c)
			layout.data(c, rows)
		}
		if err := c.state(); err != nil {
			return 0, err
		}
		spans = append(spans, span{b[start:typed], b[typed:c.at]})
	}
	return c.at, r.emit(dimensions, spans)
}

func (r *reframer) emit(dimensions []byte, spans []span) error {
	parts := [][]byte{[]byte(blockInfo), dimensions}
	for _, s := range spans {
		parts = append(parts, s.header)
		if r.revision >= revisionCustomSerialization {
			parts = append(parts, []byte{0})
		}
		parts = append(parts, s.data)
	}
	for _, p := range parts {
		if _, err := r.w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *reframer) layout(name string) (columnLayout, error) {
	if l, ok := r.columns[name]; ok {
		return l, nil
	}
	l, err := parseLayout(name)
	if err != nil {
		return nil, err
	}
	r.columns[name] = l
	return l, nil
}

// cursor walks over bytes; once short or err is set it stands still.
type cursor struct {
	b     []byte
	at    int
	short bool
	err   error
}

func (c *cursor) state() error {
	if c.err != nil {
		return c.err
	}
	if c.short {
		return errShort
	}
	return nil
}

func (c *cursor) skip(n uint64) []byte {
	if c.short || c.err != nil || n > uint64(len(c.b)-c.at) {
		c.short = true
		return nil
	}
	start := c.at
	c.at += int(n)
	return c.b[start:c.at]
}

func (c *cursor) uvarint() uint64 {
	if c.short || c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.b[c.at:])
	if n == 0 {
		c.short = true
		return 0
	}
	if n < 0 {
		c.err = errors.New("native block: malformed length")
		return 0
	}
	c.at += n
	return v
}

func (c *cursor) uint64() uint64 {
	b := c.skip(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (c *cursor) string() []byte { return c.skip(c.uvarint()) }

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil && !c.short {
		c.err = fmt.Errorf("native block: "+format, args...)
	}
}
