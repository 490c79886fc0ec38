package wire

import (
	"strconv"
	"time"
)

// Room is one chat room.
type Room struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	CreatedBy  string     `json:"created_by"`
	Status     string     `json:"status"` // active or archived
	CreatedAt  time.Time  `json:"created_at"`
	ArchivedAt *time.Time `json:"archived_at,omitempty"`
}

// NewRoom is the body of POST /rooms.
type NewRoom struct {
	Name      string `json:"name"`
	CreatedBy string `json:"created_by,omitempty"` // default "orchestrator"
}

// Rooms is the answer of GET /rooms, newest first.
type Rooms struct {
	Rooms []Room  `json:"rooms"`
	Count int     `json:"count"`
	Next  *string `json:"next"` // for after=; null at the end
}

// RoomDetail is the answer of GET /rooms/{id}.
type RoomDetail struct {
	Room         Room          `json:"room"`
	Participants []Participant `json:"participants"`
}

// Participant is one member of a room.
type Participant struct {
	ID         string     `json:"id"`
	RoomID     string     `json:"room_id"`
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	JoinedAt   time.Time  `json:"joined_at"`
	LeftAt     *time.Time `json:"left_at,omitempty"`
	LastSeenID int64      `json:"last_seen_id"`
}

// NewParticipant is the body of POST /rooms/{id}/participants.
type NewParticipant struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"` // default "implementer"
}

// Participants is the answer of GET /rooms/{id}/participants, in the order in
// which they joined.
type Participants struct {
	Participants []Participant `json:"participants"`
	Count        int           `json:"count"`
}

// Message is one message of a room. A null author is the service itself, a
// null target means everyone.
type Message struct {
	ID         int64     `json:"id"`
	RoomID     string    `json:"room_id"`
	AuthorID   *string   `json:"author_id"`
	AuthorName string    `json:"author_name"`
	TargetID   *string   `json:"target_id"`
	Kind       string    `json:"kind"`
	Body       string    `json:"body"`
	CreatedAt  time.Time `json:"created_at"`
}

// AppendJSON appends the message as encoding/json would write it.
func (m *Message) AppendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), m.ID, 10)
	b = appendString(append(b, `,"room_id":`...), m.RoomID)
	b = appendOptional(append(b, `,"author_id":`...), m.AuthorID)
	b = appendString(append(b, `,"author_name":`...), m.AuthorName)
	b = appendOptional(append(b, `,"target_id":`...), m.TargetID)
	b = appendString(append(b, `,"kind":`...), m.Kind)
	b = appendString(append(b, `,"body":`...), m.Body)
	b = appendTime(append(b, `,"created_at":`...), m.CreatedAt)
	return append(b, '}')
}

// NewMessage is the body of POST /rooms/{id}/messages.
type NewMessage struct {
	ParticipantID string `json:"participant_id"`
	Body          string `json:"body"`
	// Target is a participant's id, or a name that fits one of those present.
	Target string `json:"target,omitempty"`
	Kind   string `json:"kind,omitempty"` // default "message"
}

// Poll is the answer of GET /rooms/{id}/messages.
type Poll struct {
	Messages   []Message `json:"messages"`
	Count      int       `json:"count"`
	RoomStatus string    `json:"room_status"`
	HasMore    bool      `json:"has_more"` // there are more for this participant now
}

// AppendJSON appends the answer as encoding/json would write it.
func (p *Poll) AppendJSON(b []byte) []byte {
	b = appendAll[Message](append(b, `{"messages":`...), p.Messages)
	b = strconv.AppendInt(append(b, `,"count":`...), int64(p.Count), 10)
	b = appendString(append(b, `,"room_status":`...), p.RoomStatus)
	b = strconv.AppendBool(append(b, `,"has_more":`...), p.HasMore)
	return append(b, '}')
}

// Log is the answer of GET /rooms/{id}/log.
type Log struct {
	Messages []Message `json:"messages"`
	Count    int       `json:"count"`
	Next     *int64    `json:"next"` // for after=; null at the end
}

// AppendJSON appends the answer as encoding/json would write it.
func (l *Log) AppendJSON(b []byte) []byte {
	b = appendAll[Message](append(b, `{"messages":`...), l.Messages)
	b = strconv.AppendInt(append(b, `,"count":`...), int64(l.Count), 10)
	b = append(b, `,"next":`...)
	if l.Next == nil {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, *l.Next, 10)
	}
	return append(b, '}')
}

// Ack is the body of POST /rooms/{id}/participants/{pid}/ack.
type Ack struct {
	// LastSeenID is the id of the last message that is dealt with, and with it
	// every earlier one.
	LastSeenID int64 `json:"last_seen_id"`
}
