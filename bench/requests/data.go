package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
)

// dataset is how many rows there are.
type dataset struct{ handoffs, rooms, messages int } // messages: in each room

const (
	handoffBytes = 2048
	messageBytes = 200
	projects     = 20
)

// The rooms of the load, by their numbers; those below are only polled.
const (
	sendRooms   = 1_000_001 // one of each client
	sharedRoom  = 1_100_000 // of all clients, whose numbers follow
	movingRooms = 1_200_001 // one of each client, with messages to read
	movingStart = 100_000_000
	movingRows  = 50_000 // in each; more than a turn reads
	nextMessage = 200_000_000
)

// moveBack lets the participants of movingRooms read all again.
func moveBack() string {
	return fmt.Sprintf(`UPDATE chat_participants SET last_seen_id = %d + right(id::text, 12)::bigint - %d WHERE id BETWEEN '%v' AND '%v'`,
		movingStart, movingRooms, id(movingRooms), id(movingRooms+clients-1))
}

var small = dataset{handoffs: 10_000, rooms: 1000, messages: 100} //nolint:gochecknoglobals // what Go has no constants for

// texts are some texts of a length that look as if an agent had written them.
func texts(bytes int) []string {
	words := strings.Fields(`the cursor moves only forward and "last_seen_id" is checked in the same statement
		open: retry of the push when the operator restarts done: migration 004 applied on staging tests green
		next step read api/poll.go then decide whether the index on project repo updated_at is used`)
	random := rand.New(rand.NewPCG(1, 1))
	out := make([]string, 64)
	for i := range out {
		var b strings.Builder
		for n := 1; b.Len() < bytes; n++ {
			b.WriteString(words[random.IntN(len(words))])
			b.WriteByte(" \n"[min(1, n%12/11)])
		}
		out[i] = b.String()[:bytes-1] + "."
	}
	return out
}

// load replaces all rows. Indexes that are not unique are made afterwards, and
// foreign keys not checked, which takes a fraction of the time.
func (b *bench) load(ctx context.Context, d dataset) error {
	b.data = d
	steps := []struct {
		sql  string
		args []any
	}{
		{sql: `SET session_replication_role = replica`},
		{sql: `SET maintenance_work_mem = '512MB'`},
		{sql: `TRUNCATE chat_handoffs, chat_handoff_revisions, chat_rooms, chat_participants, chat_messages, chat_outbox`},
		{loadHandoffs, []any{d.handoffs, projects, texts(handoffBytes)}},
		{loadRevisions, nil},
		{loadRooms, []any{d.rooms, sendRooms, sharedRoom, movingRooms, clients}},
		{loadParticipants, []any{sharedRoom, clients}},
		{loadMessages, []any{d.rooms, d.messages, texts(messageBytes)}},
		{loadMoving, []any{movingRooms, movingStart, movingRows, clients, texts(messageBytes)}},
		{sql: `UPDATE chat_rooms AS r SET last_message_id = coalesce((SELECT max(id) FROM chat_messages WHERE room_id = r.id), 0)`},
		{sql: `UPDATE chat_participants AS p SET last_seen_id = r.last_message_id FROM chat_rooms AS r WHERE r.id = p.room_id`},
		{sql: fmt.Sprint(`ALTER SEQUENCE chat_message_id RESTART `, nextMessage)},
	}
	restore, err := b.dropIndexes(ctx)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if _, err := b.db.Exec(ctx, s.sql, s.args...); err != nil {
			return fmt.Errorf("%s: %w", s.sql, err)
		}
	}
	for _, sql := range append(restore, `VACUUM (ANALYZE)`, `CHECKPOINT`) {
		if _, err := b.db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func (b *bench) dropIndexes(ctx context.Context) (restore []string, err error) {
	rows, err := b.db.Query(ctx, `SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'chat%' AND indexdef NOT LIKE 'CREATE UNIQUE%'`)
	if err != nil {
		return nil, err
	}
	var name, definition string
	var names []string
	_, err = pgx.ForEachRow(rows, []any{&name, &definition}, func() error {
		names, restore = append(names, name), append(restore, definition)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if _, err := b.db.Exec(ctx, `DROP INDEX `+pgx.Identifier{n}.Sanitize()); err != nil {
			return nil, err
		}
	}
	return restore, nil
}

const (
	loadHandoffs = `
		INSERT INTO chat_handoffs (id, handoff_key, project, repo, kind, created_by, updated_by, body, revision, created_at, updated_at)
		SELECT lpad(n::text, 32, '0')::uuid, n, n % $2::int, 'acme/repo', 'implement', 'bench', 'bench', ($3::text[])[1 + n % 64], 1, at, at
		FROM generate_series(1, $1::int) AS n, LATERAL (SELECT now() - interval '1 hour' + n * interval '1 microsecond' AS at) AS time`
	loadRevisions = `
		INSERT INTO chat_handoff_revisions (handoff_key, revision, write_id, handoff_id, project, repo, kind, body,
			created_by, created_at, written_by, written_at, request_id, restored)
		SELECT handoff_key, revision, gen_random_uuid(), id, project, repo, kind, body, created_by, created_at, updated_by, updated_at, '', 0
		FROM chat_handoffs`
	loadRooms = `
		INSERT INTO chat_rooms (id, name, created_by, status, created_at)
		SELECT lpad(n::text, 32, '0')::uuid, 'room', 'bench', 'active', now() FROM (
			SELECT generate_series(1, $1::int) AS n UNION ALL SELECT $2::int + generate_series(0, $5::int - 1)
			UNION ALL SELECT $3::int UNION ALL SELECT $4::int + generate_series(0, $5::int - 1)
		) AS numbers`
	// One in each room, of the same id, and one of each client in the shared room.
	loadParticipants = `
		INSERT INTO chat_participants (id, room_id, name, role, joined_at, last_seen_id)
		SELECT id, id, 'agent', 'implementer', now(), 0 FROM chat_rooms UNION ALL
		SELECT lpad(($1::int + n)::text, 32, '0')::uuid, lpad($1::text, 32, '0')::uuid, 'agent', 'implementer', now(), 0
		FROM generate_series(1, $2::int) AS n`
	// The rooms take turns.
	loadMessages = `
		INSERT INTO chat_messages (room_id, id, send_id, author_id, author_name, kind, body, created_at)
		SELECT room, (i - 1) * $1::bigint + n, gen_random_uuid(), room, 'agent', 'message', ($3::text[])[1 + i % 64], now()
		FROM generate_series(1, $2::int) AS i, generate_series(1, $1::int) AS n, LATERAL (SELECT lpad(n::text, 32, '0')::uuid AS room) AS id`
	loadMoving = `
		INSERT INTO chat_messages (room_id, id, send_id, author_id, author_name, kind, body, created_at)
		SELECT room, $2::bigint + i * $4 + n, gen_random_uuid(), room, 'agent', 'message', ($5::text[])[1 + i % 64], now()
		FROM generate_series(1, $3::int) AS i, generate_series(0, $4::int - 1) AS n,
			LATERAL (SELECT lpad(($1::int + n)::text, 32, '0')::uuid AS room) AS id`
)
