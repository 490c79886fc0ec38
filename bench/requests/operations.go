package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// operation is one kind of request, and how pgbench draws the same values.
type operation struct {
	name  string
	reads bool // whether the number of rows must not matter
	// request appends a request, but for its host.
	request func(b []byte, d draw) []byte
	// answer is in every answer.
	answer string
	// draws are the commands of pgbench that draw the values of a request.
	draws string
	// values are the expressions of pgbench for the values of [example].
	values map[any]string
	// reset is run before each turn.
	reset string
}

// draw are the random values of one request.
type draw struct{ key, project, room, client int }

// example is a draw whose values cannot be mistaken for each other.
func example() draw { return draw{key: 27, project: 27 % projects, room: 11, client: 0} }

const (
	drawKey  = "\\set key random(1, :handoffs)\n\\set project :key % 20\n" // see projects
	drawRoom = "\\set room random(1, :rooms)\n"
)

func operations() []operation {
	key, project := strconv.Itoa(example().key), strconv.Itoa(example().project)
	upsert := fmt.Sprintf(`"repo":"acme/repo","kind":"implement","body":%s}`, quote(texts(handoffBytes)[0]))
	message := quote(texts(messageBytes)[0])
	return []operation{
		{
			name: "get", reads: true, answer: `"handoff_key"`, draws: drawKey, values: map[any]string{key: ":key"},
			request: func(b []byte, d draw) []byte { return get(b, "/handoffs/%d", d.key) },
		},
		{
			name: "upsert", answer: `"handoff_key"`, draws: drawKey, values: map[any]string{key: ":key", project: ":project"},
			request: func(b []byte, d draw) []byte {
				return post(b, "/handoffs", fmt.Sprintf(`{"handoff_key":"%d","project":"%d",`, d.key, d.project), upsert)
			},
		},
		{
			name: "list", reads: true, answer: `"count":50`, draws: drawKey, values: map[any]string{project: ":project"},
			request: func(b []byte, d draw) []byte { return get(b, "/handoffs?project=%d", d.project) },
		},
		{
			name: "send", answer: `"author_id"`, draws: fmt.Sprintf("\\set room %d + :client_id\n", sendRooms),
			values: map[any]string{id(sendRooms): asID("room")},
			request: func(b []byte, d draw) []byte {
				return post(b, "/rooms/"+id(sendRooms+d.client).String()+"/messages",
					`{"participant_id":"`+id(sendRooms+d.client).String()+`","body":`, message+"}")
			},
		},
		{
			name: "send_one_room", answer: `"author_id"`,
			draws:  fmt.Sprintf("\\set room %d\n\\set participant %d + :client_id\n", sharedRoom, sharedRoom+1),
			values: map[any]string{id(sharedRoom): asID("room"), id(sharedRoom + 1): asID("participant")},
			request: func(b []byte, d draw) []byte {
				return post(b, "/rooms/"+id(sharedRoom).String()+"/messages",
					`{"participant_id":"`+id(sharedRoom+1+d.client).String()+`","body":`, message+"}")
			},
		},
		{
			name: "poll_idle", reads: true, answer: `"count":0`, draws: drawRoom, values: map[any]string{id(example().room): asID("room")},
			request: func(b []byte, d draw) []byte {
				return get(b, "/rooms/%[1]v/messages?participant=%[1]v", id(d.room))
			},
		},
		{
			name: "poll_moving", reads: true, answer: `"count":1`,
			draws: fmt.Sprintf("\\set room %d + :client_id\n\\if :to = 0\n\\set to %d + :client_id\n\\endif\n", movingRooms, movingStart) +
				fmt.Sprintf("\\set from :to\n\\set to :from + %d\n", clients),
			values: map[any]string{id(movingRooms): asID("room"), int64(movingStart): ":from", int64(movingStart + clients): ":to"},
			reset:  moveBack(),
			request: func(b []byte, d draw) []byte {
				return get(b, "/rooms/%[1]v/messages?participant=%[1]v&limit=1", id(movingRooms+d.client))
			},
		},
	}
}

// id is an id that pgbench, which knows numbers only, can make too.
func id(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("%032d", n)) }

// asID is what makes the id of a number that is a variable of pgbench.
func asID(variable string) string { return `lpad(:` + variable + `, 32, '0')::uuid` }

// host is one that the service answers without authentication.
const host = "\r\nHost: 127.0.0.1\r\n"

func get(b []byte, path string, values ...any) []byte {
	b = append(b, "GET "...)
	b = fmt.Appendf(b, path, values...)
	return append(b, " HTTP/1.1"+host+"\r\n"...)
}

func post(b []byte, path string, body ...string) []byte {
	length := 0
	for _, s := range body {
		length += len(s)
	}
	b = append(b, "POST "...)
	b = append(b, path...)
	b = fmt.Appendf(b, " HTTP/1.1"+host+"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", length)
	for _, s := range body {
		b = append(b, s...)
	}
	return b
}

// quote is a text in JSON.
func quote(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
