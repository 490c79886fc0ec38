package api

import (
	"context"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/store"
)

// Handoffs is what the API needs of the store of handoffs. Every method
// returns the errors of package store.
type Handoffs interface {
	// PutHandoff creates or replaces the handoff of a key.
	PutHandoff(ctx context.Context, a store.Actor, once *store.Once, w store.HandoffWrite) (store.Handoff, error)
	Handoff(ctx context.Context, key string) (store.Handoff, error)
	Handoffs(ctx context.Context, q store.HandoffQuery) ([]store.Handoff, error)
	// DeleteHandoff reports whether there was one to delete.
	DeleteHandoff(ctx context.Context, a store.Actor, key string, p store.Precondition) (bool, error)
	// Revisions are those that are kept, newest first, of a deleted key too.
	Revisions(ctx context.Context, key string) ([]store.Revision, error)
	// RestoreHandoff writes an earlier revision again, as a new one.
	RestoreHandoff(ctx context.Context, a store.Actor, once *store.Once, key string, revision int64, p store.Precondition) (store.Handoff, error)
	// Recorded takes note of a read, if there is room for it; it never waits.
	Recorded(e store.Event)
}

// Rooms is what the API needs of the store of rooms. Every method returns the
// errors of package store.
type Rooms interface {
	CreateRoom(ctx context.Context, a store.Actor, once *store.Once, n store.NewRoom) (store.Room, error)
	Room(ctx context.Context, id uuid.UUID) (store.Room, error)
	Rooms(ctx context.Context, q store.RoomQuery) ([]store.Room, error)
	// ArchiveRoom reports whether the room was active.
	ArchiveRoom(ctx context.Context, a store.Actor, id uuid.UUID) (bool, error)
	Join(ctx context.Context, a store.Actor, once *store.Once, room uuid.UUID, n store.NewParticipant) (store.Participant, error)
	// Participants are those of a room, in the order in which they joined, those
	// that left included.
	Participants(ctx context.Context, room uuid.UUID) ([]store.Participant, error)
	Leave(ctx context.Context, a store.Actor, room, participant uuid.UUID) error
	Send(ctx context.Context, a store.Actor, once *store.Once, room uuid.UUID, n store.NewMessage) (store.Message, error)
	// Log is every message of a room after an id, in id order.
	Log(ctx context.Context, room uuid.UUID, after int64, limit int) ([]store.Message, error)
	Poll(ctx context.Context, q store.PollQuery) (store.Poll, error)
	// Ack moves a participant's cursor forward to an id, never back.
	Ack(ctx context.Context, room, participant uuid.UUID, id int64) (store.Participant, error)
	// Subscribe returns a channel that receives when the room has something
	// new, on whatever replica it was written. Subscribe first, then poll. stop
	// gives it back.
	Subscribe(room uuid.UUID) (news <-chan struct{}, stop func())
}
