package journal

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// headerBytes is the size of a frame's header; see the package comment.
const headerBytes = 32

// header is the fixed part of a frame.
type header struct {
	length  uint32 // of the payload
	number  uint64 // of the record
	nanos   int64  // time of the append
	durable uint32 // offset in the segment below which all was fsynced
	payload uint32 // checksum of the payload
}

func (h header) frameBytes() int64 { return headerBytes + int64(h.length) }

func (h header) time() time.Time { return time.Unix(0, h.nanos) }

// codec encodes and checks the frames of one segment.
type codec struct {
	table *crc32.Table
	salt  uint32
}

func newCodec(salt uint32) codec {
	// MakeTable returns the package's shared table for Castagnoli, the one with
	// hardware support.
	return codec{table: crc32.MakeTable(crc32.Castagnoli), salt: salt}
}

func (c codec) sum(b []byte) uint32 { return crc32.Checksum(b, c.table) }

func (c codec) sumHeader(b []byte) uint32 { return crc32.Update(c.salt, c.table, b[4:headerBytes]) }

// appendHeader appends the encoded header to b.
func (c codec) appendHeader(b []byte, h header) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, h.length)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.nanos))
	b = binary.LittleEndian.AppendUint32(b, h.durable)
	b = binary.LittleEndian.AppendUint32(b, h.payload)
	binary.LittleEndian.PutUint32(b[start:], c.sumHeader(b[start:]))
	return b
}

// parseHeader decodes a header and reports whether its checksum holds. The
// length and the numbers of a header that holds can be trusted.
func (c codec) parseHeader(b []byte) (header, bool) {
	if len(b) < headerBytes {
		return header{}, false
	}
	h := header{
		length:  binary.LittleEndian.Uint32(b[4:]),
		number:  binary.LittleEndian.Uint64(b[8:]),
		nanos:   int64(binary.LittleEndian.Uint64(b[16:])),
		durable: binary.LittleEndian.Uint32(b[24:]),
		payload: binary.LittleEndian.Uint32(b[28:]),
	}
	if h.number == 0 {
		return h, false // also cheap to refuse zeroes before summing
	}
	return h, binary.LittleEndian.Uint32(b) == c.sumHeader(b)
}

// findHeader looks in b for the first header that holds and whose number is in
// [from, to), and returns its offset. Numbers are compared before anything is
// summed, so that a search costs little more than a scan of memory.
func (c codec) findHeader(b []byte, from, to uint64) (header, int, bool) {
	for off := 0; off+headerBytes <= len(b); off++ {
		n := binary.LittleEndian.Uint64(b[off+8:])
		if n < from || n >= to {
			continue
		}
		if h, ok := c.parseHeader(b[off:]); ok {
			return h, off, true
		}
	}
	return header{}, 0, false
}
