// Package simulate plays a fleet of wrappers over the real wire format and
// knows exactly what they spent. What a fleet sends is a function of its seed,
// whatever the scheduling, the answers and the number of receivers; what it
// reports as the truth is the last snapshot of each process that a receiver
// acknowledged, priced with the price book.
//
// The truth never rests on a guess about where one process ends and the next
// begins: the lives of one pod call different tools, so no snapshot of one can
// be a later snapshot of another, whichever pushes are lost. Snapshots from
// before the first turn are the exception, and they carry nothing.
//
// A fleet that was sent before is sent again byte for byte, so a second run of
// one seed must change no total of a receiver.
//
// It does not imitate the wrapper's HTTP API, its turn callback or its
// transcripts.
package simulate
