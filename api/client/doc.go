// Package client is the Go client of the ledger's HTTP API: handoffs, rooms,
// spend and links. The command line, the MCP server and the tests use it.
//
// What the service refuses comes back as one of the package's sentinels, and
// as the *envelope.Error that it answered with:
//
//	h, err := c.Handoff(ctx, key)
//	if errors.Is(err, client.ErrNotFound) { … }
//	var e *envelope.Error
//	if errors.As(err, &e) { … e.Field, e.Hint, e.RequestID … }
//
// Calls that may be repeated are repeated, with jitter, while the service
// cannot be reached or is overloaded: reads, deletes, and every create, which
// carries an Idempotency-Key of its own, the same for each repetition. Two
// things are not repeated once they may have reached the service: a poll that
// moves the participant's cursor (its messages would be lost; poll with Peek
// and acknowledge instead, or look into the log) and a delete under a
// precondition.
package client
