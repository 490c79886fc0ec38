// Package outbox copies what happened to handoffs and rooms from Postgres,
// where it is written in the transaction of what it tells of, to the ledger in
// ClickHouse, for analytics.
//
// An event leaves the outbox only when the ledger has it, durably. A crash or
// an error anywhere between repeats the batch, and the ledger counts an event
// once however often it comes, so that nothing is lost or doubled. Any number
// of replicas may drain one outbox: each passes over what another holds. While
// either store is away, events wait in Postgres, whose disk is the only bound.
//
// The order in which events reach the ledger means nothing.
package outbox
