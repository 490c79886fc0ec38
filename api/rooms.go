package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store"
)

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
	// LogTail is every message of a room before an id, the last first.
	LogTail(ctx context.Context, room uuid.UUID, before int64, limit int) ([]store.Message, error)
	Poll(ctx context.Context, q store.PollQuery) (store.Poll, error)
	// Ack moves a participant's cursor forward to an id, never back.
	Ack(ctx context.Context, room, participant uuid.UUID, id int64) (store.Participant, error)
	// Subscribe returns a channel that receives when the room has something
	// new, on whatever replica it was written. Subscribe first, then poll. stop
	// gives it back.
	Subscribe(room uuid.UUID) (news <-chan struct{}, stop func())
}

// defaultCreator is who creates a room if the caller does not say.
const defaultCreator = "orchestrator"

// createRoom answers POST /rooms.
func (s *server) createRoom(w http.ResponseWriter, r *http.Request, n *note) error {
	var in wire.NewRoom
	body, err := readJSON(r, smallBody, &in)
	if err != nil {
		return err
	}
	if err := checkTexts(text{"name", in.Name, maxName, true}, text{"created_by", in.CreatedBy, maxName, false}); err != nil {
		return err
	}
	once, err := onceOf(r.Header, "POST /rooms", body)
	if err != nil {
		return err
	}
	room, err := s.rooms.CreateRoom(r.Context(), actor(w, r), once, store.NewRoom{Name: in.Name, CreatedBy: cmp.Or(in.CreatedBy, defaultCreator)})
	if err != nil {
		return err
	}
	n.room, n.count = room.ID, 1
	if !n.replayedBy(w, once) {
		s.chat.rooms.WithLabelValues("created").Inc()
	}
	w.Header().Set("Location", "rooms/"+room.ID.String())
	envelope.JSON(w, http.StatusCreated, wireRoom(&room))
	return nil
}

// listRooms answers GET /rooms.
func (s *server) listRooms(w http.ResponseWriter, r *http.Request, n *note) error {
	q, err := roomQuery(r)
	if err != nil {
		return err
	}
	found := list[store.Room, wire.Room]{
		read: func(limit int) ([]store.Room, error) {
			q.Limit = limit
			return s.rooms.Rooms(r.Context(), q)
		},
		place: func(v *store.Room) (time.Time, uuid.UUID) { return v.CreatedAt, v.ID },
		size:  func(v *store.Room) int { return len(v.Name) + len(v.CreatedBy) },
		wire:  wireRoom,
	}
	var out wire.Rooms
	if out.Rooms, out.Next, err = found.page(q.Limit); err != nil {
		return err
	}
	out.Count = len(out.Rooms)
	n.count = out.Count
	envelope.JSON(w, http.StatusOK, out)
	return nil
}

func roomQuery(r *http.Request) (q store.RoomQuery, err error) {
	p, err := parameters(r, "status", "limit", "after")
	if err != nil {
		return q, err
	}
	switch q.Status = store.RoomStatus(p.get("status")); q.Status {
	case "", store.Active, store.Archived:
	default:
		return q, envelope.BadField("status", "is no status of a room", "use active or archived")
	}
	q.Limit, q.After.CreatedAt, q.After.ID, err = p.place()
	return q, err
}

// getRoom answers GET /rooms/{id}.
func (s *server) getRoom(w http.ResponseWriter, r *http.Request, n *note) error {
	id, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	if _, err := parameters(r); err != nil {
		return err
	}
	room, err := s.rooms.Room(r.Context(), id)
	if err != nil {
		return err
	}
	participants, err := s.rooms.Participants(r.Context(), id)
	if err != nil {
		return err
	}
	n.room, n.count = id, 1
	envelope.JSON(w, http.StatusOK, wire.RoomDetail{Room: wireRoom(&room), Participants: each(participants, wireParticipant)})
	return nil
}

// archiveRoom answers DELETE /rooms/{id}. To archive an archived room changes
// nothing.
func (s *server) archiveRoom(w http.ResponseWriter, r *http.Request, n *note) error {
	id, err := pathID(r, "id", "room")
	if err != nil {
		return err
	}
	archived, err := s.rooms.ArchiveRoom(r.Context(), actor(w, r), id)
	if err != nil {
		return err
	}
	n.room = id
	if archived {
		n.count = 1
		s.chat.rooms.WithLabelValues("archived").Inc()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func wireRoom(room *store.Room) wire.Room {
	out := wire.Room{
		ID: room.ID.String(), Name: room.Name, CreatedBy: room.CreatedBy, Status: string(room.Status), CreatedAt: room.CreatedAt.UTC(),
	}
	if !room.ArchivedAt.IsZero() {
		at := room.ArchivedAt.UTC()
		out.ArchivedAt = &at
	}
	return out
}

func (s *server) roomRoutes(r routes) {
	r.post("/rooms", s.action("room_create", slog.LevelInfo, s.createRoom))
	r.get("/rooms", s.action("room_list", slog.LevelDebug, s.listRooms))
	r.get("/rooms/{id}", s.action("room_read", slog.LevelDebug, s.getRoom))
	r.delete("/rooms/{id}", s.action("room_archive", slog.LevelInfo, s.archiveRoom))

	r.post("/rooms/{id}/participants", s.action("participant_join", slog.LevelInfo, s.join))
	r.get("/rooms/{id}/participants", s.action("participant_list", slog.LevelDebug, s.listParticipants))
	r.delete("/rooms/{id}/participants/{pid}", s.action("participant_leave", slog.LevelInfo, s.leave))
	r.post("/rooms/{id}/participants/{pid}/ack", s.action("participant_ack", slog.LevelInfo, s.ack))

	r.post("/rooms/{id}/messages", s.action("message_send", slog.LevelInfo, s.send))
	r.poll("/rooms/{id}/messages", s.action("message_poll", slog.LevelDebug, s.poll))
	r.get("/rooms/{id}/log", s.action("message_log", slog.LevelDebug, s.readLog))
}
