// Package outbox copies what happened from Postgres, where it is written in the
// transaction of what it tells of, to where it is to be known: events of
// handoffs and rooms, and alerts of tasks, to the ledger in ClickHouse, for
// analytics; alerts of tasks to a webhook.
//
// An event leaves its outbox only when it was taken, durably. A crash or an
// error anywhere between repeats the batch, and the ledger counts an event once
// however often it comes, so that nothing is lost or doubled there; a webhook
// knows a repetition by its id. Any number of replicas may drain one outbox.
// While either side is away, events wait in Postgres, whose disk is the only
// bound.
package outbox
