package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store"
)

const defaultRole = "implementer"

// roles are those that existing clients know.
var roles = []string{"orchestrator", "implementer", "reviewer", "human"}

// join answers POST /rooms/{id}/participants.
func (s *server) join(w http.ResponseWriter, r *http.Request, n *note) error {
	room, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	var in wire.NewParticipant
	body, err := readJSON(r, smallBody, &in)
	if err != nil {
		return err
	}
	if err := checkParticipant(in); err != nil {
		return err
	}
	once, err := onceOf(r.Header, "POST /rooms/"+room.String()+"/participants", body)
	if err != nil {
		return err
	}
	p, err := s.rooms.Join(r.Context(), actor(w, r), once, room, store.NewParticipant{Name: in.Name, Role: cmp.Or(in.Role, defaultRole)})
	if err != nil {
		return err
	}
	n.room, n.participant, n.count = room, p.ID, 1
	if !n.replayedBy(w, once) {
		s.chat.participants.WithLabelValues("join").Inc()
	}
	envelope.JSON(w, http.StatusCreated, wireParticipant(&p))
	return nil
}

func checkParticipant(in wire.NewParticipant) error {
	if err := checkTexts(text{"name", in.Name, maxName, true}); err != nil {
		return err
	}
	if strings.EqualFold(strings.TrimSpace(in.Name), store.SystemName) {
		return envelope.BadField("name", "is the service's own", "use another name")
	}
	if in.Role != "" && !slices.Contains(roles, in.Role) {
		return envelope.BadField("role", "is no role", "use "+strings.Join(roles, ", "))
	}
	return nil
}

// listParticipants answers GET /rooms/{id}/participants.
func (s *server) listParticipants(w http.ResponseWriter, r *http.Request, n *note) error {
	room, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	if _, err := parameters(r); err != nil {
		return err
	}
	rows, err := s.rooms.Participants(r.Context(), room)
	if err != nil {
		return err
	}
	n.room, n.count = room, len(rows)
	envelope.JSON(w, http.StatusOK, wire.Participants{Participants: each(rows, wireParticipant), Count: len(rows)})
	return nil
}

// leave answers DELETE /rooms/{id}/participants/{pid}.
func (s *server) leave(w http.ResponseWriter, r *http.Request, n *note) error {
	room, participant, err := pathParticipant(r)
	if err != nil {
		return err
	}
	if err := s.rooms.Leave(r.Context(), actor(w, r), room, participant); err != nil {
		return err
	}
	n.room, n.participant, n.count = room, participant, 1
	s.chat.participants.WithLabelValues("leave").Inc()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// ack answers POST /rooms/{id}/participants/{pid}/ack: the cursor moves forward
// only, so that to repeat it, or to be late, is harmless.
func (s *server) ack(w http.ResponseWriter, r *http.Request, n *note) error {
	room, participant, err := pathParticipant(r)
	if err != nil {
		return err
	}
	var in struct { // tells absent from 0
		LastSeenID *int64 `json:"last_seen_id"`
	}
	if _, err := readJSON(r, smallBody, &in); err != nil {
		return err
	}
	if in.LastSeenID == nil || *in.LastSeenID < 0 {
		return envelope.BadField("last_seen_id", "is missing or negative", "send the id of the last message that is dealt with")
	}
	p, err := s.rooms.Ack(r.Context(), room, participant, *in.LastSeenID)
	if err != nil {
		return err
	}
	n.room, n.participant, n.count = room, participant, 1
	envelope.JSON(w, http.StatusOK, wireParticipant(&p))
	return nil
}

func pathParticipant(r *http.Request) (room, participant uuid.UUID, err error) {
	if room, err = pathID(r, "id", "room"); err != nil {
		return room, participant, err
	}
	participant, err = pathID(r, "pid", "participant")
	return room, participant, err
}

func wireParticipant(p *store.Participant) wire.Participant {
	out := wire.Participant{
		ID: p.ID.String(), RoomID: p.RoomID.String(), Name: p.Name, Role: p.Role, JoinedAt: p.JoinedAt.UTC(), LastSeenID: p.LastSeenID,
	}
	if !p.LeftAt.IsZero() {
		at := p.LeftAt.UTC()
		out.LeftAt = &at
	}
	return out
}
