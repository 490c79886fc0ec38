// Package journal is the durable queue between the receivers and the ledger's
// writer: many producers, one consumer, records of opaque bytes kept in order.
//
// Guarantees:
//
//   - [Journal.Append] returns nil only after the record is on disk (fsync). One
//     fsync serves every caller that waits (group commit).
//   - An acknowledged record is handed out by [Journal.Next], in order of
//     acknowledgement, at least once, until [Journal.Commit] covers it. A crash
//     at any point changes nothing about that. A record whose Append returned an
//     error may be handed out too: the outcome of a failed write is unknown.
//   - After a failed write or fsync nothing more is acknowledged from that file:
//     the group fails with [ErrDisk], the file is closed at its last durable
//     byte, and the next group starts a new file.
//   - Disk use is bounded: when full, Append waits a bounded time and returns
//     [ErrFull].
//   - A torn tail left by a crash is cut at start, counted and logged. Damage
//     anywhere else sets the segment aside under a name ending in ".corrupt"
//     with all its bytes; what is readable of it is still handed out, and the
//     missing records are counted, because record numbers are continuous.
//   - One process has the folder: a second one gets ErrInUse.
//
// Non-goals: several consumers, compression, replication.
//
// # On disk
//
// A segment is a file named "<index>-<base>-<salt>.wal": a running number, the
// number of its first record, and a random salt of its checksums. It has no
// header, so no single damaged sector makes a whole segment unreadable. It ends
// where the base of the next segment begins, whatever follows in the file: that
// is how the remains of a failed group are told from acknowledged records. A
// segment is a sequence of frames:
//
//	offset  size  field
//	     0     4  checksum of the header (CRC-32C of the salt and bytes 4 to 31)
//	     4     4  length of the payload
//	     8     8  record number, from 1, continuous over segments
//	    16     8  time of the append, Unix nanoseconds
//	    24     4  durable offset: all before it was fsynced when this was written
//	    28     4  checksum of the payload (CRC-32C)
//	    32     …  payload
//
// The durable offset separates a torn tail from damage: a bad frame before the
// durable offset of any later frame had been acknowledged. The salt keeps a
// payload that looks like a frame from being taken for one.
//
// The file "position" holds the last committed record number.
package journal
