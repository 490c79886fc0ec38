package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func (s *service) room() string {
	s.t.Helper()
	return into[wire.Room](s.do("POST", "/rooms", wire.NewRoom{Name: "room"}).want(201)).ID
}

func (s *service) participant(room, name string) string {
	s.t.Helper()
	return into[wire.Participant](s.do("POST", "/rooms/"+room+"/participants", wire.NewParticipant{Name: name}).want(201)).ID
}

func (s *service) say(room, participant, body, target string) wire.Message {
	s.t.Helper()
	return into[wire.Message](s.do("POST", "/rooms/"+room+"/messages", wire.NewMessage{ParticipantID: participant, Body: body, Target: target}).want(201))
}

// keysOf are the names that an answer really has.
func keysOf(r *reply) []string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(r.body, &m)
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestRoomShapes: the fields of the contract's table, by the name that existing
// clients read.
func TestRoomShapes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	if r := s.do("GET", "/rooms", nil).want(200); string(r.body) != `{"rooms":[],"count":0,"next":null}`+"\n" {
		t.Errorf("%s", r.body)
	}
	made := s.do("POST", "/rooms", `{"name":"n"}`).want(201)
	room := into[wire.Room](made)
	if diff := cmp.Diff([]string{"created_at", "created_by", "id", "name", "status"}, keysOf(made)); diff != "" || room.CreatedBy != "orchestrator" || room.Status != "active" {
		t.Errorf("%+v %s", room, diff)
	}
	if made.header.Get("Location") != "rooms/"+room.ID {
		t.Error(made.header)
	}
	if r := into[wire.Room](s.do("POST", "/rooms", `{"name":"n","created_by":"ann"}`).want(201)); r.CreatedBy != "ann" {
		t.Errorf("%+v", r)
	}
	base := "/rooms/" + room.ID
	if r := s.do("GET", base+"/participants", nil).want(200); string(r.body) != `{"participants":[],"count":0}`+"\n" {
		t.Errorf("%s", r.body)
	}
	if r := s.do("GET", base+"/log", nil).want(200); string(r.body) != `{"messages":[],"count":0,"next":null}`+"\n" {
		t.Errorf("%s", r.body)
	}
	joined := s.do("POST", base+"/participants", `{"name":"a"}`).want(201)
	p := into[wire.Participant](joined)
	if diff := cmp.Diff([]string{"id", "joined_at", "last_seen_id", "name", "role", "room_id"}, keysOf(joined)); diff != "" || p.Role != "implementer" || p.LastSeenID != 0 {
		t.Errorf("%+v %s", p, diff)
	}
	if r := s.do("GET", base+"/messages?participant="+p.ID, nil).want(200); string(r.body) != `{"messages":[],"count":0,"room_status":"active","has_more":false}`+"\n" {
		t.Errorf("%s", r.body)
	}
	sent := s.do("POST", base+"/messages", wire.NewMessage{ParticipantID: p.ID, Body: "hi"}).want(201)
	m := into[wire.Message](sent)
	if diff := cmp.Diff([]string{"author_id", "author_name", "body", "created_at", "id", "kind", "room_id", "target_id"}, keysOf(sent)); diff != "" || m.Kind != "message" || *m.AuthorID != p.ID || m.AuthorName != "a" || m.TargetID != nil {
		t.Errorf("%+v %s", m, diff)
	}
	if diff := cmp.Diff([]string{"participants", "room"}, keysOf(s.do("GET", base, nil).want(200))); diff != "" {
		t.Error(diff)
	}
	s.do("DELETE", base+"/participants/"+p.ID, nil).want(204)
	if left := into[wire.Participants](s.do("GET", base+"/participants", nil).want(200)); left.Count != 1 || left.Participants[0].LeftAt == nil {
		t.Errorf("%+v", left)
	}
	s.do("DELETE", base, nil).want(204)
	s.do("DELETE", base, nil).want(204)
	if d := into[wire.RoomDetail](s.do("GET", base, nil).want(200)); d.Room.Status != "archived" || d.Room.ArchivedAt == nil || len(d.Participants) != 1 {
		t.Errorf("%+v", d)
	}
	for status, n := range map[string]int{"active": 1, "archived": 1, "": 2} {
		if l := into[wire.Rooms](s.do("GET", "/rooms?status="+status, nil).want(200)); l.Count != n {
			t.Errorf("%s: %+v", status, l)
		}
	}
	s.counts("chat_rooms_total", `
# HELP chat_rooms_total Rooms, by what became of them: created, archived, ttl_archived.
# TYPE chat_rooms_total counter
chat_rooms_total{op="archived"} 1
chat_rooms_total{op="created"} 2
chat_rooms_total{op="ttl_archived"} 0
`)
	s.counts("chat_participants_total", `
# HELP chat_participants_total Participants that joined or left.
# TYPE chat_participants_total counter
chat_participants_total{op="join"} 1
chat_participants_total{op="leave"} 1
`)
	s.counts("chat_polls_total", `
# HELP chat_polls_total Polls that were answered.
# TYPE chat_polls_total counter
chat_polls_total 1
`)
}

// TestUnknownIDs: 404 for what is unknown or malformed, and for a participant
// that left or belongs to another room.
func TestUnknownIDs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room, other := s.room(), s.room()
	left, stranger := s.participant(room, "left"), s.participant(other, "stranger")
	s.do("DELETE", "/rooms/"+room+"/participants/"+left, nil).want(204)
	message := func(p string) wire.NewMessage { return wire.NewMessage{ParticipantID: p, Body: "b"} }
	for _, id := range []string{"x", "0", uuid.NewString(), "%00", "..%2F..", "urn:uuid:" + room, "{" + room + "}", strings.ReplaceAll(room, "-", "")} {
		s.do("GET", "/rooms/"+id, nil).fails(404, "room")
		s.do("DELETE", "/rooms/"+id, nil).fails(404, "room")
		s.do("GET", "/rooms/"+id+"/participants", nil).fails(404, "room")
		s.do("POST", "/rooms/"+id+"/participants", `{"name":"n"}`).fails(404, "room")
		s.do("POST", "/rooms/"+id+"/messages", message(stranger)).fails(404, "room")
		s.do("GET", "/rooms/"+id+"/messages?participant="+stranger, nil).fails(404, "room")
		s.do("GET", "/rooms/"+id+"/log", nil).fails(404, "room")
		s.do("DELETE", "/rooms/"+id+"/participants/"+stranger, nil).fails(404, "room")
		s.do("POST", "/rooms/"+id+"/participants/"+stranger+"/ack", `{"last_seen_id":0}`).fails(404, "room")
	}
	for _, id := range []string{"x", uuid.NewString(), left, stranger} {
		s.do("POST", "/rooms/"+room+"/messages", message(id)).fails(404, "participant_id")
		s.do("GET", "/rooms/"+room+"/messages?participant="+id, nil).fails(404, "participant")
		s.do("GET", "/rooms/"+room+"/messages?wait=1&participant="+id, nil).fails(404, "participant")
		s.do("DELETE", "/rooms/"+room+"/participants/"+id, nil).fails(404, "participant")
		s.do("POST", "/rooms/"+room+"/participants/"+id+"/ack", `{"last_seen_id":0}`).fails(404, "participant")
	}
	author := s.participant(room, "author")
	for _, target := range []string{uuid.NewString(), left, stranger, "nobody"} {
		s.do("POST", "/rooms/"+room+"/messages", wire.NewMessage{ParticipantID: author, Body: "b", Target: target}).fails(404, "target")
	}
	s.participant(room, "twin")
	s.participant(room, "twin")
	s.do("POST", "/rooms/"+room+"/messages", wire.NewMessage{ParticipantID: author, Body: "b", Target: "twin"}).fails(400, "target")
}

// TestRoomFields: 400 for a missing or invalid field.
func TestRoomFields(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) { c.MaxMessageBytes = 100 })
	room := s.room()
	p := s.participant(room, "p")
	long := strings.Repeat("x", 257)
	for _, c := range []struct{ path, body, field string }{
		{"/rooms", `{}`, "name"},
		{"/rooms", `{"name":" "}`, "name"},
		{"/rooms", `{"name":"` + long + `"}`, "name"},
		{"/rooms", `{"name":"a\u0000"}`, "name"},
		{"/rooms", `{"name":true}`, "name"},
		{"/rooms", `{"name":"a","created_by":"` + long + `"}`, "created_by"},
		{"/rooms", `{"name":"a","created_by":"\u0000"}`, "created_by"},
		{"/rooms", `[]`, "body"},
		{"/participants", `{}`, "name"},
		{"/participants", `{"name":"` + long + `"}`, "name"},
		{"/participants", `{"name":"a","role":"boss"}`, "role"},
		{"/participants", `{"name":"a","role":"\u0000"}`, "role"},
		{"/participants", `{"name":"a","role":1}`, "role"},
		{"/participants", `{"name":" System "}`, "name"},
		{"/messages", `{"body":"b"}`, "participant_id"},
		{"/messages", `{"participant_id":"` + p + `"}`, "body"},
		{"/messages", `{"participant_id":"` + p + `","body":" "}`, "body"},
		{"/messages", `{"participant_id":"` + p + `","body":"a\u0000b"}`, "body"},
		{"/messages", `{"participant_id":"` + p + `","body":"b","target":"\u0000"}`, "target"},
		{"/messages", `{"participant_id":"` + p + `","body":"b","target":"` + long + `"}`, "target"},
		{"/messages", `{"participant_id":"` + p + `","body":"b","kind":"a b"}`, "kind"},
		{"/messages", `{"participant_id":"` + p + `","body":"b","kind":"ą"}`, "kind"},
		{"/messages", `{"participant_id":"` + p + `","body":"b","kind":"` + long[:65] + `"}`, "kind"},
		{"/messages", `{"participant_id":7,"body":"b"}`, "participant_id"},
		{"/participants/" + p + "/ack", `{}`, "last_seen_id"},
		{"/participants/" + p + "/ack", `{"last_seen_id":-1}`, "last_seen_id"},
		{"/participants/" + p + "/ack", `{"last_seen_id":"1"}`, "last_seen_id"},
		{"/participants/" + p + "/ack", `{"last_seen_id":1}`, "last_seen_id"}, // beyond
		{"/participants/" + p + "/ack", `{"last_seen_id":9223372036854775807}`, "last_seen_id"},
	} {
		if c.path != "/rooms" {
			c.path = "/rooms/" + room + c.path
		}
		s.do("POST", c.path, c.body).fails(400, c.field)
	}
	for _, role := range []string{"orchestrator", "implementer", "reviewer", "human"} {
		if got := into[wire.Participant](s.do("POST", "/rooms/"+room+"/participants", wire.NewParticipant{Name: "r", Role: role}).want(201)); got.Role != role {
			t.Errorf("%+v", got)
		}
	}
	s.say(room, p, strings.Repeat("x", 100), "")
	e := s.do("POST", "/rooms/"+room+"/messages", wire.NewMessage{ParticipantID: p, Body: strings.Repeat("x", 101)}).fails(413, "body")
	if !strings.Contains(e.Message, "100") {
		t.Errorf("the limit is not named: %+v", e)
	}
	for query, field := range map[string]string{"status=open": "status", "limit=0": "limit", "after=%21": "after", "name=x": "name"} {
		s.do("GET", "/rooms?"+query, nil).fails(400, field)
	}
	for _, path := range []string{"", "/participants"} {
		s.do("GET", "/rooms/"+room+path+"?x=1", nil).fails(400, "x")
	}
}

// TestForgedSystemKind: an audit's finding.
func TestForgedSystemKind(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	p := s.participant(room, "p")
	for _, kind := range []string{"system", "SYSTEM", "System"} {
		s.do("POST", "/rooms/"+room+"/messages", wire.NewMessage{ParticipantID: p, Body: "b", Kind: kind}).fails(400, "kind")
	}
	if m := into[wire.Message](s.do("POST", "/rooms/"+room+"/messages", wire.NewMessage{ParticipantID: p, Body: "b", Kind: "status.update-1_x"}).want(201)); m.Kind != "status.update-1_x" {
		t.Errorf("%+v", m)
	}
	s.counts("chat_messages_total", `
# HELP chat_messages_total Messages, by kind (message, system, other) and scope (global, dm).
# TYPE chat_messages_total counter
chat_messages_total{kind="other",scope="global"} 1
chat_messages_total{kind="message",scope="global"} 0
chat_messages_total{kind="message",scope="dm"} 0
chat_messages_total{kind="system",scope="global"} 0
chat_messages_total{kind="other",scope="dm"} 0
`)
}

// TestArchivedRoom: 409 for writing to it and for joining it, which an audit
// found to be possible; reading goes on.
func TestArchivedRoom(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	a, b := s.participant(room, "a"), s.participant(room, "b")
	m := s.say(room, a, "last words", "")
	s.do("DELETE", "/rooms/"+room, nil).want(204)
	s.do("POST", "/rooms/"+room+"/messages", wire.NewMessage{ParticipantID: a, Body: "more"}).fails(409, "room")
	s.do("POST", "/rooms/"+room+"/participants", `{"name":"late"}`).fails(409, "room")
	p := into[wire.Poll](s.do("GET", "/rooms/"+room+"/messages?participant="+b, nil).want(200))
	if p.RoomStatus != "archived" || !slices.ContainsFunc(p.Messages, func(v wire.Message) bool { return v.ID == m.ID }) {
		t.Errorf("%+v", p)
	}
	s.do("GET", "/rooms/"+room+"/log", nil).want(200)
}

// TestLog: every message, direct ones too, in pages; next is null at the end.
func TestLog(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	a, b := s.participant(room, "a"), s.participant(room, "b")
	var want []int64
	for i := range 5 {
		want = append(want, s.say(room, a, fmt.Sprint(i), []string{"", b, "b"}[i%3]).ID)
	}
	var got []int64
	for query := "?limit=2"; ; {
		l := into[wire.Log](s.do("GET", "/rooms/"+room+"/log"+query, nil).want(200))
		for _, m := range l.Messages {
			got = append(got, m.ID)
		}
		if l.Next == nil {
			break
		}
		query = fmt.Sprint("?limit=2&after=", *l.Next)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for query, field := range map[string]string{"after=-1": "after", "after=x": "after", "limit=0": "limit", "participant=x": "participant"} {
		s.do("GET", "/rooms/"+room+"/log?"+query, nil).fails(400, field)
	}
}

// TestLogTail: the end of a log, and further back from there, in the order of
// ids.
func TestLogTail(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	p := s.participant(room, "p")
	tail := func(query string) []int64 {
		t.Helper()
		l := into[wire.Log](s.do("GET", "/rooms/"+room+"/log?tail="+query, nil).want(200))
		if l.Next != nil || l.Count != len(l.Messages) {
			t.Errorf("%s: %+v", query, l)
		}
		return idsOf(l.Messages)
	}
	if got := tail("3"); len(got) != 0 {
		t.Errorf("of an empty room: %v", got)
	}
	var ids []int64
	for i := range 5 {
		ids = append(ids, s.say(room, p, fmt.Sprint(i), "").ID)
	}
	for query, want := range map[string][]int64{
		"1": ids[4:], "2": ids[3:], "501": ids, "2&limit=&after=": ids[3:],
		fmt.Sprint("2&before=", ids[3]): ids[1:3], fmt.Sprint("2&before=", ids[1]): ids[:1], fmt.Sprint("2&before=", ids[0]): nil, "2&before=0": nil,
	} {
		if got := tail(query); !slices.Equal(want, got) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for query, field := range map[string]string{
		"tail=0": "tail", "tail=x": "tail", "tail=1&tail=2": "tail", "tail=1&after=1": "after", "tail=1&limit=1": "limit",
		"before=1": "before", "tail=1&before=-1": "before", "tail=1&before=x": "before",
	} {
		s.do("GET", "/rooms/"+room+"/log?"+query, nil).fails(400, field)
	}
	s.do("GET", "/rooms/"+uuid.NewString()+"/log?tail=1", nil).fails(404, "room")
}

func TestListRoomsInPages(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var want []string
	for range 5 {
		want = append([]string{s.room()}, want...)
	}
	var got []string
	for query := "?limit=2&status=active"; ; {
		l := into[wire.Rooms](s.do("GET", "/rooms"+query, nil).want(200))
		for _, r := range l.Rooms {
			got = append(got, r.ID)
		}
		if l.Next == nil {
			break
		}
		query = "?limit=2&status=active&after=" + *l.Next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestActionsAreLogged: one line each, never a body.
func TestActionsAreLogged(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := s.room()
	p := s.participant(room, "p")
	s.do("POST", "/rooms/"+room+"/messages", wire.NewMessage{ParticipantID: p, Body: "secret"}, "X-Request-Id", "run-9").want(201)
	s.do("POST", "/handoffs", wire.HandoffWrite{HandoffKey: "k", Project: "p", Body: "secret"}).want(201)
	s.do("GET", "/handoffs/k", nil).want(200)
	log := s.log.String()
	if strings.Contains(log, "secret") {
		t.Error("a body is in the log")
	}
	for _, want := range []string{
		`"level":"INFO","msg":"business action","component":"api","action":"message_send","request_id":"run-9","room_id":"` + room + `","participant_id":"` + p + `","count":1,"duration_ms":`,
		`"action":"room_create"`, `"action":"participant_join"`, `"action":"handoff_write"`, `"level":"DEBUG","msg":"business action","component":"api","action":"handoff_read"`,
	} {
		if strings.Count(log, want) != 1 {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
}
