// Package collector is the pipeline of the ledger: receivers hand facts to the
// journal, the writer drains the journal into the ledger and derives charges,
// the closer rolls them up.
//
// Guarantees: a fact that was acknowledged is in the journal, durably; it
// leaves the journal only when the ledger has it and all charges that follow
// from it. A batch may be written any number of times, by any number of
// replicas, without changing a sum.
package collector
