package bridge

import (
	"strconv"
	"strings"
)

// columnLayout knows how long a column's bytes are. A column is a prefix, of
// all its parts, followed by the data, of all its parts.
type columnLayout interface {
	prefix(c *cursor)
	data(c *cursor, rows uint64)
}

type (
	fixedLayout    uint64
	stringLayout   struct{}
	nullableLayout struct{ columnLayout }
	arrayLayout    struct{ columnLayout }
	tupleLayout    []columnLayout
	variantLayout  []columnLayout
	lowCardinality struct{ keys columnLayout }
)

func (fixedLayout) prefix(*cursor)                   {}
func (l fixedLayout) data(c *cursor, rows uint64)    { c.skip(rows * uint64(l)) }
func (stringLayout) prefix(*cursor)                  {}
func (l nullableLayout) data(c *cursor, rows uint64) { c.skip(rows); l.columnLayout.data(c, rows) }

func (stringLayout) data(c *cursor, rows uint64) {
	for range rows {
		if c.string(); c.short || c.err != nil {
			return
		}
	}
}

func (l arrayLayout) data(c *cursor, rows uint64) {
	if rows == 0 {
		return
	}
	c.skip(8 * (rows - 1))
	if n := c.uint64(); !c.short {
		l.columnLayout.data(c, n)
	}
}

func (l tupleLayout) prefix(c *cursor) {
	for _, e := range l {
		e.prefix(c)
	}
}

func (l tupleLayout) data(c *cursor, rows uint64) {
	if len(l) == 0 {
		c.skip(rows)
	}
	for _, e := range l {
		e.data(c, rows)
	}
}

func (l variantLayout) prefix(c *cursor) {
	if mode := c.uint64(); mode != 0 {
		c.fail("variant in mode %d", mode)
	}
	tupleLayout(l).prefix(c)
}

func (l variantLayout) data(c *cursor, rows uint64) {
	counts := make([]uint64, 256)
	for _, which := range c.skip(rows) {
		counts[which]++
	}
	for i, e := range l {
		e.data(c, counts[i])
	}
}

// prefix is the version of the keys' serialization.
func (lowCardinality) prefix(c *cursor) { c.skip(8) }

// data is flags (the index type in the lowest byte), the dictionary's size and
// keys, the number of rows, and an index for each.
func (l lowCardinality) data(c *cursor, rows uint64) {
	if rows == 0 {
		return
	}
	const hasOwnKeys, needsGlobalDictionary = 1 << 9, 1 << 8
	flags := c.uint64()
	if flags&needsGlobalDictionary != 0 || flags&hasOwnKeys == 0 {
		c.fail("dictionary with flags %#x", flags)
		return
	}
	n := c.uint64()
	if c.short {
		return
	}
	l.keys.data(c, n)
	if got := c.uint64(); got != rows {
		c.fail("dictionary of %d rows in a block of %d", got, rows)
		return
	}
	if flags&0xff > 3 {
		c.fail("dictionary index of type %d", flags&0xff)
		return
	}
	c.skip(rows << (flags & 0xff))
}

// parseLayout reads a type's name as ClickHouse writes it.
func parseLayout(name string) (columnLayout, error) {
	base, args := splitType(name)
	if n, ok := fixedSize(base, args); ok {
		return fixedLayout(n), nil
	}
	elements := func() (l []columnLayout, err error) {
		for _, a := range args {
			e, err := parseLayout(elementType(a))
			if err != nil {
				return nil, err
			}
			l = append(l, e)
		}
		return l, nil
	}
	switch base {
	case "String":
		return stringLayout{}, nil
	case "Tuple", "Variant", "Map", "Nested":
		l, err := elements()
		switch {
		case err != nil:
			return nil, err
		case base == "Tuple":
			return tupleLayout(l), nil
		case base == "Variant":
			return variantLayout(l), nil
		}
		return arrayLayout{tupleLayout(l)}, nil
	case "Point":
		return fixedLayout(16), nil
	case "Ring", "LineString":
		return arrayLayout{fixedLayout(16)}, nil
	case "Polygon", "MultiLineString":
		return arrayLayout{arrayLayout{fixedLayout(16)}}, nil
	case "MultiPolygon":
		return arrayLayout{arrayLayout{arrayLayout{fixedLayout(16)}}}, nil
	}
	if len(args) == 0 {
		return nil, exceptionf(codeNotImplemented, "type %s cannot be sent in format Native with client_protocol_version", name)
	}
	inner, err := parseLayout(args[len(args)-1])
	if err != nil {
		return nil, err
	}
	switch base {
	case "Array":
		return arrayLayout{inner}, nil
	case "Nullable":
		return nullableLayout{inner}, nil
	case "SimpleAggregateFunction":
		return inner, nil
	case "LowCardinality":
		if n, ok := inner.(nullableLayout); ok { // NULL is a key's place, not a map
			inner = n.columnLayout
		}
		return lowCardinality{inner}, nil
	}
	return nil, exceptionf(codeNotImplemented, "type %s cannot be sent in format Native with client_protocol_version", name)
}

// fixedSize is the size of a value of the types that have one.
func fixedSize(base string, args []string) (uint64, bool) {
	switch base {
	case "UInt8", "Int8", "Bool", "Enum8", "Nothing":
		return 1, true
	case "UInt16", "Int16", "Date", "Enum16", "BFloat16":
		return 2, true
	case "UInt32", "Int32", "Float32", "Date32", "DateTime", "IPv4", "Time", "Decimal32":
		return 4, true
	case "UInt64", "Int64", "Float64", "DateTime64", "Time64", "Decimal64":
		return 8, true
	case "UInt128", "Int128", "UUID", "IPv6", "Decimal128":
		return 16, true
	case "UInt256", "Int256", "Decimal256":
		return 32, true
	case "FixedString", "Decimal":
		if len(args) == 0 {
			return 0, false
		}
		n, err := strconv.ParseUint(args[0], 10, 32)
		if err != nil || base == "FixedString" {
			return n, err == nil
		}
		for size, digits := range map[uint64]uint64{4: 9, 8: 18, 16: 38, 32: 76} {
			if n <= digits && (size == 4 || n > digits/2) {
				return size, true
			}
		}
		return 0, false
	}
	return 8, strings.HasPrefix(base, "Interval")
}

// splitType cuts "Map(String, Array(UInt8))" into "Map" and its arguments.
func splitType(name string) (base string, args []string) {
	open := strings.IndexByte(name, '(')
	if open < 0 || !strings.HasSuffix(name, ")") {
		return name, nil
	}
	base = name[:open]
	s := &scanner{sql: name[open+1 : len(name)-1]}
	start := 0
	for {
		t, ok := s.next()
		if !ok {
			break
		}
		if t.depth == 0 && t.text == "," && !t.quoted {
			args = append(args, strings.TrimSpace(s.sql[start:t.start]))
			start = t.end
		}
	}
	if last := strings.TrimSpace(s.sql[start:]); last != "" {
		args = append(args, last)
	}
	return base, args
}

// elementType drops the name from "name Type".
func elementType(arg string) string {
	s := &scanner{sql: arg}
	first, ok := s.next()
	if !ok {
		return arg
	}
	if second, ok := s.next(); ok && second.isWord() && second.depth == 0 && second.start > first.end {
		return arg[second.start:]
	}
	return arg
}
