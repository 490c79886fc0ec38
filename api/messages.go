package api

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store"
)

const (
	defaultKind = "message"
	// maxKind bounds a message's kind in bytes.
	maxKind = 64
)

// send answers POST /rooms/{id}/messages.
func (s *server) send(w http.ResponseWriter, r *http.Request, n *note) error {
	room, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	var in wire.NewMessage
	body, err := readJSON(r, rawLimit(s.maxMessage), &in)
	if err != nil {
		return err
	}
	if err := s.checkMessage(in); err != nil {
		return err
	}
	author, err := parseID("participant_id", in.ParticipantID)
	if err != nil {
		return err
	}
	once, err := onceOf(r.Header, "POST /rooms/"+room.String()+"/messages", body)
	if err != nil {
		return err
	}
	m, err := s.rooms.Send(r.Context(), actor(w, r), once, room, store.NewMessage{
		ParticipantID: author, Target: in.Target, Kind: cmp.Or(in.Kind, defaultKind), Body: in.Body,
	})
	if err != nil {
		return err
	}
	n.room, n.participant, n.count = room, author, 1
	if !n.replayedBy(w, once) {
		s.chat.sent(&m)
	}
	out := wireMessage(&m)
	envelope.JSON(w, http.StatusCreated, &out)
	return nil
}

func (s *server) checkMessage(in wire.NewMessage) error {
	if err := checkTexts(
		text{"participant_id", in.ParticipantID, maxName, true},
		text{"body", in.Body, s.maxMessage, true},
		text{"target", in.Target, maxName, false},
	); err != nil {
		return err
	}
	return checkKind(in.Kind)
}

func checkKind(kind string) error {
	switch {
	case strings.EqualFold(kind, store.KindSystem):
		return envelope.BadField("kind", "is the service's own", "leave it out, or use another kind")
	case len(kind) > maxKind || strings.ContainsFunc(kind, func(c rune) bool { return !kindRune(c) }):
		return envelope.BadField("kind", "is not made of at most 64 letters, digits, dots, underscores and hyphens", "leave it out for message")
	}
	return nil
}

func kindRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c)
}

// readLog answers GET /rooms/{id}/log: every message, whoever it is for, and no
// cursor but the caller's. A page is what follows an id, or with tail the last
// messages, of the room or before an id.
func (s *server) readLog(w http.ResponseWriter, r *http.Request, n *note) error {
	room, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	q, err := parseLog(r)
	if err != nil {
		return err
	}
	read := s.rooms.Log
	if q.tail {
		read = s.rooms.LogTail
	}
	rows, err := read(r.Context(), room, q.start, q.limit+1)
	if err != nil {
		return err
	}
	rows, more := page(rows, q.limit, func(m *store.Message) int { return len(m.Body) })
	var next *int64
	switch {
	case q.tail:
		slices.Reverse(rows)
	case more:
		next = &rows[len(rows)-1].ID
	}
	n.room, n.count = room, len(rows)
	envelope.JSON(w, http.StatusOK, &wire.Log{Messages: each(rows, wireMessage), Count: len(rows), Next: next})
	return nil
}

// logQuery is what is asked of a log.
type logQuery struct {
	tail  bool  // what is before start, instead of after it
	start int64 // the id of a message
	limit int
}

func parseLog(r *http.Request) (q logQuery, err error) {
	p, err := parameters(r, "after", "limit", "tail", "before")
	if err != nil {
		return q, err
	}
	after, fromID, err := p.id("after")
	if err != nil {
		return q, err
	}
	before, toID, err := p.id("before")
	if err != nil {
		return q, err
	}
	_, tail := p["tail"]
	_, limit := p["limit"]
	switch {
	case tail && fromID:
		return q, envelope.BadField("after", "cannot be given with tail", "leave one of them out; with tail, before reads further back")
	case tail && limit:
		return q, envelope.BadField("limit", "cannot be given with tail", "leave it out: tail is the size of the page")
	case toID && !tail:
		return q, envelope.BadField("before", "is for tail only", "say with tail how many messages to read before it")
	case !tail:
		n, err := p.limit()
		return logQuery{start: after, limit: n}, err
	case !toID:
		before = math.MaxInt64
	}
	n, err := p.count("tail", "before")
	return logQuery{tail: true, start: before, limit: n}, err
}

func wireMessage(m *store.Message) wire.Message {
	return wire.Message{
		ID: m.ID, RoomID: m.RoomID.String(), AuthorID: optionalID(m.AuthorID), AuthorName: m.AuthorName,
		TargetID: optionalID(m.TargetID), Kind: m.Kind, Body: m.Body, CreatedAt: m.CreatedAt.UTC(),
	}
}

func optionalID(id uuid.NullUUID) *string {
	if !id.Valid {
		return nil
	}
	s := id.UUID.String()
	return &s
}
