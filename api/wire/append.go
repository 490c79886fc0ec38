package wire

import (
	"encoding/binary"
	"math/bits"
	"time"
	"unicode/utf8"
)

// The answers that hold many texts write their own JSON, byte for byte as
// encoding/json would, in a fifth of the time: a page of handoffs is 100 KB.

// appendString appends s in quotes. Most texts need few escapes, so it looks at
// eight bytes at once.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for {
		n := plain(s)
		b = append(b, s[:n]...)
		if s = s[n:]; s == "" {
			return append(b, '"')
		}
		b, s = appendRune(b, s)
	}
}

// plain is how many bytes at the start of s stand for themselves.
func plain(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		v := binary.LittleEndian.Uint64([]byte(s[n : n+8]))
		quote, slash := v^(ones*'"'), v^(ones*'\\')
		// The top bit of a byte is set where it is below ' ', zero in quote or
		// slash, or not ASCII. A borrow comes from such a byte only, so that the
		// first that is set is right.
		if special := ((v - ones*' ') | (quote - ones) | (slash - ones) | v) & tops; special != 0 {
			return n + bits.TrailingZeros64(special)/8
		}
	}
	for ; n < len(s); n++ {
		if c := s[n]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return n
}

// appendRune appends the first character of s, which is not plain.
func appendRune(b []byte, s string) (_ []byte, rest string) {
	const hex = "0123456789abcdef"
	switch c := s[0]; {
	case c == '"' || c == '\\':
		return append(b, '\\', c), s[1:]
	case c == '\n':
		return append(b, `\n`...), s[1:]
	case c == '\r':
		return append(b, `\r`...), s[1:]
	case c == '\t':
		return append(b, `\t`...), s[1:]
	case c == '\b':
		return append(b, `\b`...), s[1:]
	case c == '\f':
		return append(b, `\f`...), s[1:]
	case c < ' ':
		return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15]), s[1:]
	}
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1:
		return append(b, `\ufffd`...), s[1:]
	case r == '\u2028' || r == '\u2029':
		return append(b, '\\', 'u', '2', '0', '2', hex[r&15]), s[size:]
	}
	return append(b, s[:size]...), s[size:]
}

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

func appendOptional(b []byte, s *string) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return appendString(b, *s)
}

// appendAll appends an array; a nil one is null.
func appendAll[T any, P interface {
	*T
	AppendJSON(b []byte) []byte
}](b []byte, list []T) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = P(&list[i]).AppendJSON(b)
	}
	return append(b, ']')
}
