package store

// Actor is who asks: for the columns that say so and for the analytics.
type Actor struct {
	// Name is for people, such as a user or client name.
	Name string
	// Subject is the identity that idempotency keys belong to.
	Subject string
	// RequestID is the caller's X-Request-Id; the wrapper sends its run.
	RequestID string
}

// Once makes a create happen once: the same key of the same subject for the
// same operation returns what the first request made. A nil Once asks for
// nothing.
type Once struct {
	// Key is the caller's Idempotency-Key.
	Key string
	// Operation is the route, with the ids in it.
	Operation string
	// Hash is that of the request's body, so that a key that is used for
	// something else is refused ([ErrKeyReused]) rather than misread.
	Hash []byte
	// Replayed is set by the store: what it returned was made by an earlier
	// request.
	Replayed bool
}
