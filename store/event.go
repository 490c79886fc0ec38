package store

import (
	"time"

	"github.com/google/uuid"
)

// Action names what happened.
type Action string

// The actions that analytics know.
const (
	HandoffWritten    Action = "handoff_written"
	HandoffRestored   Action = "handoff_restored"
	HandoffDeleted    Action = "handoff_deleted"
	HandoffRead       Action = "handoff_read" // best effort: no transaction guards it
	RoomCreated       Action = "room_created"
	RoomArchived      Action = "room_archived"
	RoomExpired       Action = "room_expired" // archived by the sweeper
	ParticipantJoined Action = "participant_joined"
	ParticipantLeft   Action = "participant_left"
	MessageSent       Action = "message_sent"
)

// Event is one thing that happened to a handoff or a room. It is written in
// the transaction of what it tells of and copied to the ledger from there.
type Event struct {
	// ID makes a copy that is repeated count once.
	ID     uuid.UUID
	At     time.Time
	Action Action
	Actor  string
	// RequestID joins the event to a run.
	RequestID string

	// Of a handoff.
	Project  string
	Repo     string
	Kind     string // a handoff's kind, or a message's
	Key      string
	Revision int64
	// Age is how old the handoff was when it was read.
	Age time.Duration

	// Of a room.
	RoomID        uuid.NullUUID
	ParticipantID uuid.NullUUID
	MessageID     int64
	Direct        bool // a message for one participant

	// Bytes is the size of the body; 0 where there is none.
	Bytes int64
}
