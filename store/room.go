package store

import (
	"time"

	"github.com/google/uuid"
)

// RoomStatus is active or archived.
type RoomStatus string

// A room is active until somebody or the sweeper archives it. Nothing is
// written to an archived room.
const (
	Active   RoomStatus = "active"
	Archived RoomStatus = "archived"
)

// Room is a chat room of one stream of work.
type Room struct {
	ID         uuid.UUID
	Name       string
	CreatedBy  string
	Status     RoomStatus
	CreatedAt  time.Time
	ArchivedAt time.Time // zero while active
}

// NewRoom is what a caller says of a room to create.
type NewRoom struct {
	Name      string
	CreatedBy string
}

// RoomQuery selects rooms, newest first.
type RoomQuery struct {
	Status RoomStatus // empty: every one
	Limit  int        // required
	After  RoomPosition
}

// RoomPosition is a place in the order of [RoomQuery]; zero: the start.
type RoomPosition struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// Position is the room's place in a list.
func (r *Room) Position() RoomPosition { return RoomPosition{r.CreatedAt, r.ID} }

// Participant is one member of a room.
type Participant struct {
	ID       uuid.UUID
	RoomID   uuid.UUID
	Name     string
	Role     string
	JoinedAt time.Time
	LeftAt   time.Time // zero while there
	// LastSeenID is the cursor: the id up to which the participant has been
	// given, or has acknowledged, what it may see.
	LastSeenID int64
}

// NewParticipant is what a caller says of a participant to add.
type NewParticipant struct {
	Name string
	Role string
}

// KindSystem marks messages of the service itself. Callers may not send it.
const KindSystem = "system"

// SystemName is the author of those messages.
const SystemName = "system"

// Message is one message of a room. Ids grow within a room in the order in
// which messages become visible: a reader that has seen an id has been offered
// every smaller one.
type Message struct {
	ID         int64
	RoomID     uuid.UUID
	AuthorID   uuid.NullUUID // null: the service itself
	AuthorName string
	TargetID   uuid.NullUUID // null: for everyone
	Kind       string
	Body       string
	CreatedAt  time.Time
}

// NewMessage is a message to send.
type NewMessage struct {
	ParticipantID uuid.UUID
	// Target is the id of a participant, or a name that fits one of those
	// present; empty: everyone.
	Target string
	Kind   string
	Body   string
}

// PollQuery asks for the messages that a participant may see: those for
// everyone, those for it, and its own.
type PollQuery struct {
	Room        uuid.UUID
	Participant uuid.UUID
	// Limit is the size of a page. Required.
	Limit int
	// MaxBytes of bodies end a page early, after one message at least; zero:
	// no bound.
	MaxBytes int
	// Advance moves the participant's cursor over what is returned, so that
	// every message is returned by one poll only.
	Advance bool
	// After is where to start instead of at the cursor; nil: at the cursor.
	// It excludes Advance.
	After *int64
}

// Poll is the answer of a poll.
type Poll struct {
	Messages []Message // in id order
	Status   RoomStatus
	More     bool // there are more that may be seen now
}
