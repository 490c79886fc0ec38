package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/store"
)

func TestTheLifeOfARoom(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	created := newRoom(t, s)
	want := store.Room{ID: created.ID, Name: "room", CreatedBy: "orchestrator", Status: store.Active, CreatedAt: created.CreatedAt}
	if diff := cmp.Diff(want, created); diff != "" || created.CreatedAt.IsZero() {
		t.Error(diff)
	}
	ann, bob := join(t, s, created.ID, "ann"), join(t, s, created.ID, "bob")
	if n, err := s.ActiveRooms(t.Context()); n != 1 || err != nil {
		t.Errorf("%d active rooms, error %v", n, err)
	}
	if err := s.Leave(t.Context(), actor, created.ID, bob.ID); err != nil {
		t.Fatal(err)
	}
	participants, err := s.Participants(t.Context(), created.ID)
	if err != nil || len(participants) != 2 || participants[1].LeftAt.IsZero() {
		t.Fatalf("participants %+v, error %v", participants, err)
	}
	bob.LeftAt = participants[1].LeftAt
	if diff := cmp.Diff([]store.Participant{ann, bob}, participants); diff != "" {
		t.Error(diff)
	}
	for i, active := range []bool{true, false} {
		if was, err := s.ArchiveRoom(t.Context(), actor, created.ID); was != active || err != nil {
			t.Errorf("archive %d: %v, error %v", i, was, err)
		}
	}
	read, err := s.Room(t.Context(), created.ID)
	if err != nil || read.Status != store.Archived || read.ArchivedAt.Before(read.CreatedAt) {
		t.Errorf("archived %+v, error %v", read, err)
	}
	if n, err := s.ActiveRooms(t.Context()); n != 0 || err != nil {
		t.Errorf("%d active rooms, error %v", n, err)
	}
	log := []string{"room_created", "participant_joined", "participant_joined", "participant_left", "room_archived"}
	if diff := cmp.Diff(log, events(t, s)); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
}

func TestRoomRefusals(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	room, other, closed := newRoom(t, s), newRoom(t, s), newRoom(t, s)
	here, there, shut := join(t, s, room.ID, "ann"), join(t, s, other.ID, "ann"), join(t, s, closed.ID, "ann")
	gone := join(t, s, room.ID, "gone")
	if err := s.Leave(t.Context(), actor, room.ID, gone.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ArchiveRoom(t.Context(), actor, closed.ID); err != nil {
		t.Fatal(err)
	}
	join(t, s, room.ID, "twin")
	join(t, s, room.ID, "twin")
	before := len(events(t, s))
	none := uuid.New()
	missing := func(what string) error { return &store.MissingError{What: what} }
	send := func(room, from uuid.UUID, target string) func() error {
		return func() error {
			_, err := s.Send(t.Context(), actor, nil, room, store.NewMessage{ParticipantID: from, Target: target, Kind: "message", Body: "b"})
			return err
		}
	}
	poll := func(room, by uuid.UUID) func() error {
		return func() error {
			_, err := s.Poll(t.Context(), store.PollQuery{Room: room, Participant: by, Limit: 1, Advance: true})
			return err
		}
	}
	ack := func(room, by uuid.UUID, seen int64) func() error {
		return func() error {
			_, err := s.Ack(t.Context(), room, by, seen)
			return err
		}
	}
	leave := func(room, who uuid.UUID) func() error {
		return func() error { return s.Leave(t.Context(), actor, room, who) }
	}
	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"read an unknown room":              {func() error { _, err := s.Room(t.Context(), none); return err }, missing("room")},
		"archive an unknown room":           {func() error { _, err := s.ArchiveRoom(t.Context(), actor, none); return err }, missing("room")},
		"participants of an unknown room":   {func() error { _, err := s.Participants(t.Context(), none); return err }, missing("room")},
		"log of an unknown room":            {func() error { _, err := s.Log(t.Context(), none, 0, 1); return err }, missing("room")},
		"join an unknown room":              {func() error { _, err := s.Join(t.Context(), actor, nil, none, store.NewParticipant{}); return err }, missing("room")},
		"join an archived room":             {func() error { _, err := s.Join(t.Context(), actor, nil, closed.ID, store.NewParticipant{}); return err }, store.ErrArchived},
		"send to an unknown room":           {send(none, here.ID, ""), missing("room")},
		"send to an archived room":          {send(closed.ID, shut.ID, ""), store.ErrArchived},
		"send as nobody":                    {send(room.ID, none, ""), missing("participant_id")},
		"send as one of another room":       {send(room.ID, there.ID, ""), missing("participant_id")},
		"send as one that left":             {send(room.ID, gone.ID, ""), missing("participant_id")},
		"send to nobody":                    {send(room.ID, here.ID, none.String()), missing("target")},
		"send to an unknown name":           {send(room.ID, here.ID, "nobody"), missing("target")},
		"send to one of another room":       {send(room.ID, here.ID, there.ID.String()), missing("target")},
		"send to one that left":             {send(room.ID, here.ID, gone.ID.String()), missing("target")},
		"send to the name of one that left": {send(room.ID, here.ID, "gone"), missing("target")},
		"send to a name of two":             {send(room.ID, here.ID, "twin"), store.ErrAmbiguous},
		"poll an unknown room":              {poll(none, here.ID), missing("room")},
		"poll as nobody":                    {poll(room.ID, none), missing("participant")},
		"poll as one of another room":       {poll(room.ID, there.ID), missing("participant")},
		"poll as one that left":             {poll(room.ID, gone.ID), missing("participant")},
		"acknowledge in an unknown room":    {ack(none, here.ID, 0), missing("room")},
		"acknowledge as one of another":     {ack(room.ID, there.ID, 0), missing("participant")},
		"acknowledge as one that left":      {ack(room.ID, gone.ID, 0), missing("participant")},
		"acknowledge what is not there":     {ack(room.ID, here.ID, 1), store.ErrBeyond},
		"leave an unknown room":             {leave(none, here.ID), missing("room")},
		"leave another room":                {leave(room.ID, there.ID), missing("participant")},
		"leave twice":                       {leave(room.ID, gone.ID), missing("participant")},
	} {
		err := c.do()
		if !errors.Is(err, c.want) && (err == nil || err.Error() != c.want.Error() || !errors.Is(err, store.ErrNotFound)) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if after := events(t, s)[before:]; len(after) != 0 {
		t.Errorf("refused changes were told of: %v", after)
	}
}

func TestRoomsByPages(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const rooms = 23
	var want, active []string
	for i := range rooms {
		r, err := s.CreateRoom(t.Context(), actor, nil, store.NewRoom{Name: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if _, err := s.ArchiveRoom(t.Context(), actor, r.ID); err != nil {
				t.Fatal(err)
			}
		} else {
			active = append([]string{r.Name}, active...)
		}
		want = append([]string{r.Name}, want...)
	}
	for status, want := range map[store.RoomStatus][]string{"": want, store.Active: active} {
		var got []string
		for q := (store.RoomQuery{Status: status, Limit: 4}); ; {
			page, err := s.Rooms(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				got = append(got, r.Name)
			}
			if len(page) < q.Limit {
				break
			}
			q.After = page[len(page)-1].Position()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("status %q:\n%s", status, diff)
		}
	}
	archived, err := s.Rooms(t.Context(), store.RoomQuery{Status: store.Archived, Limit: 100})
	if err != nil || len(archived) != rooms-len(active) {
		t.Errorf("%d archived rooms, error %v", len(archived), err)
	}
}
