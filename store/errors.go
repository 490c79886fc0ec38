package store

import "errors"

// Errors of every store. A store wraps them with what it knows; the API maps
// them to a status in one place.
var (
	// ErrNotFound: there is no such row, or none that may be used so (a
	// participant that left, or one of another room).
	ErrNotFound = errors.New("not found")
	// ErrPrecondition: the row is not at the revision that the caller demanded.
	ErrPrecondition = errors.New("precondition failed")
	// ErrOtherProject: the key belongs to another project.
	ErrOtherProject = errors.New("the key belongs to another project")
	// ErrArchived: the room takes no more messages or participants.
	ErrArchived = errors.New("the room is archived")
	// ErrAmbiguous: a name fits more than one participant.
	ErrAmbiguous = errors.New("the name fits more than one")
	// ErrBeyond: an acknowledgement of messages that do not exist yet.
	ErrBeyond = errors.New("beyond the last message")
	// ErrKeyReused: the idempotency key came with another request.
	ErrKeyReused = errors.New("the idempotency key was used for another request")
	// ErrTooBroad: a search looks at more than is worth its time.
	ErrTooBroad = errors.New("the search matches too much")
	// ErrUnstorable: the store does not hold such a value.
	ErrUnstorable = errors.New("the store does not hold such a value")
	// ErrUnavailable: the store did not answer for as long as it is worth
	// waiting. What was asked may or may not have happened.
	ErrUnavailable = errors.New("the store does not answer")
)

// MissingError is an [ErrNotFound] that says what is missing.
type MissingError struct {
	What string // such as "room" or "target": the name of a field of the request where there is one
}

// Error says what is missing.
func (e *MissingError) Error() string { return e.What + " not found" }

// Is reports whether target is [ErrNotFound].
func (e *MissingError) Is(target error) bool { return target == ErrNotFound }
