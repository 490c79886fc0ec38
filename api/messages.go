package api

import (
	"cmp"
	"net/http"
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
// cursor but the caller's.
func (s *server) readLog(w http.ResponseWriter, r *http.Request, n *note) error {
	room, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	p, err := parameters(r, "after", "limit")
	if err != nil {
		return err
	}
	after, _, err := p.id("after")
	if err != nil {
		return err
	}
	limit, err := p.limit()
	if err != nil {
		return err
	}
	rows, err := s.rooms.Log(r.Context(), room, after, limit+1)
	if err != nil {
		return err
	}
	rows, more := page(rows, limit)
	out := wire.Log{Messages: wireMessages(rows), Count: len(rows)}
	if more {
		out.Next = &rows[len(rows)-1].ID
	}
	n.room, n.count = room, len(rows)
	envelope.JSON(w, http.StatusOK, &out)
	return nil
}

func wireMessages(rows []store.Message) []wire.Message {
	out := make([]wire.Message, 0, len(rows))
	for i := range rows {
		out = append(out, wireMessage(&rows[i]))
	}
	return out
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
