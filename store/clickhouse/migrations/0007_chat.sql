-- What happened to handoffs and rooms, copied from the outbox in Postgres. An
-- event that is copied again is the same row and collapses. Bodies stay in
-- Postgres: here is only their size.

-- +goose Up
CREATE TABLE IF NOT EXISTS chat_facts
(
    id             UUID COMMENT 'of the event, given where it happened',
    time           DateTime64(6, 'UTC') COMMENT 'when it happened',
    arrived        DateTime64(3, 'UTC') COMMENT 'when it was copied',
    action         LowCardinality(String),
    actor          String,
    request_id     String COMMENT 'the run, where the caller is a wrapper',
    project        LowCardinality(String),
    repo           LowCardinality(String),
    kind           LowCardinality(String) COMMENT 'of the handoff, or of the message',
    handoff_key    String COMMENT 'empty: an event of a room',
    revision       UInt64,
    age_ms         UInt64 COMMENT 'of the handoff when it was read',
    room_id        Nullable(UUID),
    participant_id Nullable(UUID),
    message_id     UInt64,
    direct         Bool COMMENT 'a message for one participant',
    bytes          UInt64 COMMENT 'size of the body',
    -- As for the other facts, the earliest copy is the canonical one.
    earliest       UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
PARTITION BY toYYYYMM(time)
-- Handoffs by key; what rooms do comes first, by time.
ORDER BY (handoff_key, time, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE VIEW IF NOT EXISTS chat_events
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    time, arrived AS arrived_at, id, action, actor, request_id, project, repo, kind,
    handoff_key, revision, age_ms / 1000 AS age_seconds,
    room_id, participant_id, message_id, direct,
    bytes, intDiv(bytes + 3, 4) AS approximate_tokens,
    CAST(action = 'handoff_read', 'UInt8') AS best_effort
FROM chat_facts FINAL;

-- The present state of every key that was ever written. Revisions, not clocks,
-- say what came after what. One aggregate per column: of a tuple of strings it
-- takes twice as long.
CREATE VIEW IF NOT EXISTS handoffs
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    handoff_key,
    last_project AS project,
    last_repo AS repo,
    last_kind AS kind,
    if(ended < last_revision, 'open', 'deleted') AS state,
    last_time AS updated_at,
    last_revision AS revision,
    last_bytes AS bytes,
    intDiv(last_bytes + 3, 4) AS approximate_tokens,
    last_actor AS written_by,
    last_request_id AS request_id,
    length(read_revisions) AS reads,
    countEqual(read_revisions, last_revision) AS reads_since_write,
    last_read AS last_read_at
FROM
(
    SELECT
        handoff_key,
        argMaxIf(project, revision, action IN ('handoff_written', 'handoff_restored')) AS last_project,
        argMaxIf(repo, revision, action IN ('handoff_written', 'handoff_restored')) AS last_repo,
        argMaxIf(kind, revision, action IN ('handoff_written', 'handoff_restored')) AS last_kind,
        argMaxIf(time, revision, action IN ('handoff_written', 'handoff_restored')) AS last_time,
        argMaxIf(bytes, revision, action IN ('handoff_written', 'handoff_restored')) AS last_bytes,
        argMaxIf(actor, revision, action IN ('handoff_written', 'handoff_restored')) AS last_actor,
        argMaxIf(request_id, revision, action IN ('handoff_written', 'handoff_restored')) AS last_request_id,
        maxIf(revision, action IN ('handoff_written', 'handoff_restored')) AS last_revision,
        countIf(action IN ('handoff_written', 'handoff_restored')) AS writes,
        maxIf(revision, action = 'handoff_deleted') AS ended,
        groupArrayIf(revision, action = 'handoff_read') AS read_revisions,
        maxOrNullIf(time, action = 'handoff_read') AS last_read
    FROM chat_facts FINAL
    WHERE handoff_key != ''
    GROUP BY handoff_key
)
WHERE writes > 0;
