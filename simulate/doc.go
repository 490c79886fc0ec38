// Package simulate plays a fleet of wrappers over the real wire format and
// knows exactly what they spent. What a fleet sends is a function of its
// configuration and seed, whatever the scheduling and the number of receivers.
// Of the answers only the push counter depends, as that of a real wrapper does:
// they decide how it is split by result, not its sum. What a fleet reports as
// the truth is the last snapshot of each process that a receiver acknowledged,
// priced with the price book.
//
// The truth never rests on a guess about where one process ends and the next
// begins: the lives of one pod call different tools, so no snapshot of one can
// be a later snapshot of another, whichever pushes are lost. Snapshots from
// before the first turn carry nothing, and are the same in every life.
//
// A fleet that was acknowledged is sent again with the same counters and push
// counts, so a second run must change no total of a receiver.
//
// It does not imitate the wrapper's HTTP API, its turn callback or its
// transcripts.
package simulate
