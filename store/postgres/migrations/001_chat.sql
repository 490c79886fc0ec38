-- Handoffs: one row per continuation key.
CREATE TABLE chat_handoffs (
    id          uuid PRIMARY KEY,
    handoff_key text NOT NULL,
    project     text NOT NULL,
    repo        text NOT NULL,
    kind        text NOT NULL,
    created_by  text NOT NULL,
    updated_by  text NOT NULL,
    body        text STORAGE MAIN NOT NULL,
    revision    bigint NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    -- Stored, since a search that walks the newest rows would parse each body;
    -- out of line, so that it makes no row wider that is only read.
    words       tsvector STORAGE EXTERNAL GENERATED ALWAYS AS (to_tsvector('english', body)) STORED,
    CONSTRAINT chat_handoffs_handoff_key_key UNIQUE (handoff_key)
);

-- A list by project is twice as fast by an index without repo in its middle.
CREATE INDEX chat_handoffs_project_repo ON chat_handoffs (project, repo, updated_at DESC, id DESC);
CREATE INDEX chat_handoffs_project ON chat_handoffs (project, updated_at DESC, id DESC);
CREATE INDEX chat_handoffs_updated ON chat_handoffs (updated_at DESC, id DESC);
CREATE INDEX chat_handoffs_words ON chat_handoffs USING gin (words);

-- Every state of a key, the present one included. They outlive the row.
CREATE TABLE chat_handoff_revisions (
    handoff_key text NOT NULL,
    revision    bigint NOT NULL,
    write_id    uuid NOT NULL, -- of the request: a repeat of it finds its own work
    handoff_id  uuid NOT NULL,
    project     text NOT NULL,
    repo        text NOT NULL,
    kind        text NOT NULL,
    body        text NOT NULL,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL,
    written_by  text NOT NULL,
    written_at  timestamptz NOT NULL,
    request_id  text NOT NULL,
    restored    bigint NOT NULL, -- the revision that this one copies, 0: none
    PRIMARY KEY (handoff_key, revision),
    CONSTRAINT chat_handoff_revisions_write_id_key UNIQUE (write_id)
);

-- Deletes of handoffs: a repeat of one finds its own work, and the revisions of
-- a key that is gone are kept for a time.
CREATE TABLE chat_handoff_deletions (
    delete_id   uuid PRIMARY KEY, -- of the request
    handoff_key text NOT NULL,
    revision    bigint NOT NULL, -- that was deleted
    deleted_at  timestamptz NOT NULL
);

CREATE INDEX chat_handoff_deletions_deleted ON chat_handoff_deletions (deleted_at);

CREATE TABLE chat_rooms (
    id              uuid PRIMARY KEY,
    name            text NOT NULL,
    created_by      text NOT NULL,
    status          text NOT NULL CHECK (status IN ('active', 'archived')),
    created_at      timestamptz NOT NULL,
    archived_at     timestamptz,
    last_message_id bigint NOT NULL DEFAULT 0, -- 0: none yet
    last_message_at timestamptz
) WITH (fillfactor = 50); -- every message updates it, and no index holds what changes

CREATE INDEX chat_rooms_created ON chat_rooms (created_at DESC, id DESC);
CREATE INDEX chat_rooms_status ON chat_rooms (status, created_at DESC, id DESC);

CREATE TABLE chat_participants (
    id           uuid PRIMARY KEY,
    room_id      uuid NOT NULL REFERENCES chat_rooms (id) ON DELETE CASCADE,
    name         text NOT NULL,
    role         text NOT NULL,
    joined_at    timestamptz NOT NULL,
    left_at      timestamptz,
    last_seen_id bigint NOT NULL,
    poll_ids     uuid[] NOT NULL DEFAULT '{}' -- of the polls that moved the cursor last: a repeat of one finds its own work
) WITH (fillfactor = 70); -- the cursor moves often and is in no index

CREATE INDEX chat_participants_room ON chat_participants (room_id, joined_at, id);

CREATE SEQUENCE chat_message_id;

-- A message's id is drawn by the update of its room's row, so that a room's ids
-- become visible in their order.
CREATE TABLE chat_messages (
    room_id     uuid NOT NULL REFERENCES chat_rooms (id) ON DELETE CASCADE,
    id          bigint NOT NULL,
    send_id     uuid NOT NULL, -- of the request: a repeat of it finds its own work
    author_id   uuid,
    author_name text NOT NULL,
    target_id   uuid,
    kind        text NOT NULL,
    body        text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (room_id, id),
    CONSTRAINT chat_messages_send_id_key UNIQUE (send_id)
);

ALTER SEQUENCE chat_message_id OWNED BY chat_messages.id;

CREATE TABLE chat_idempotency (
    subject    text NOT NULL,
    key        text NOT NULL,
    operation  text NOT NULL,
    hash       bytea NOT NULL,
    answer     jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (subject, operation, key)
);

CREATE INDEX chat_idempotency_created ON chat_idempotency (created_at);

-- What happened, until the ledger has it.
CREATE TABLE chat_outbox (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid NOT NULL,
    at             timestamptz NOT NULL,
    action         text NOT NULL,
    actor          text NOT NULL,
    request_id     text NOT NULL,
    project        text NOT NULL DEFAULT '',
    repo           text NOT NULL DEFAULT '',
    kind           text NOT NULL DEFAULT '',
    handoff_key    text NOT NULL DEFAULT '',
    revision       bigint NOT NULL DEFAULT 0,
    age_ms         bigint NOT NULL DEFAULT 0,
    room_id        uuid,
    participant_id uuid,
    message_id     bigint NOT NULL DEFAULT 0,
    direct         boolean NOT NULL DEFAULT false,
    bytes          bigint NOT NULL DEFAULT 0
);
