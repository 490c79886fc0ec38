// Package postgres keeps handoffs and rooms in Postgres.
//
// What it returns without an error is committed. Errors of Postgres that pass
// (a restart, a cut connection, a failover) are retried inside, for up to
// [Config.RetryFor], since the clients of this service never retry; a repeat
// finds what an earlier attempt did, if its commit was not answered, and does
// it no second time. After that the error is a [store.ErrUnavailable], and then
// alone it is unknown whether the change happened.
//
// The messages of a room get their ids under the lock of the room, so that
// they become visible in the order of their ids: a reader that goes on from
// the last id that it has seen misses nothing.
package postgres
