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
-- say what came after what.
CREATE VIEW IF NOT EXISTS handoffs
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    handoff_key,
    last.1 AS project, last.2 AS repo, last.3 AS kind,
    if(ended < last.4, 'open', 'deleted') AS state,
    last.5 AS updated_at,
    last.4 AS revision,
    last.6 AS bytes,
    intDiv(last.6 + 3, 4) AS approximate_tokens,
    last.7 AS written_by,
    last.8 AS request_id,
    all_reads AS reads,
    last.9 AS reads_since_write,
    latest_read AS last_read_at
FROM
(
    SELECT
        handoff_key,
        argMaxIf((project, repo, kind, at_revision, written_at, bytes, actor, request_id, reads), at_revision, writes > 0) AS last,
        maxIf(at_revision, deletions > 0) AS ended,
        max(writes) AS ever_written,
        sum(reads) AS all_reads,
        max(read_at) AS latest_read
    FROM
    (
        SELECT
            handoff_key,
            revision AS at_revision,
            countIf(action IN ('handoff_written', 'handoff_restored')) AS writes,
            countIf(action = 'handoff_deleted') AS deletions,
            countIf(action = 'handoff_read') AS reads,
            maxOrNullIf(time, action = 'handoff_read') AS read_at,
            maxIf(time, action IN ('handoff_written', 'handoff_restored')) AS written_at,
            anyIf(project, action IN ('handoff_written', 'handoff_restored')) AS project,
            anyIf(repo, action IN ('handoff_written', 'handoff_restored')) AS repo,
            anyIf(kind, action IN ('handoff_written', 'handoff_restored')) AS kind,
            anyIf(bytes, action IN ('handoff_written', 'handoff_restored')) AS bytes,
            anyIf(actor, action IN ('handoff_written', 'handoff_restored')) AS actor,
            anyIf(request_id, action IN ('handoff_written', 'handoff_restored')) AS request_id
        FROM chat_facts FINAL
        WHERE handoff_key != ''
        GROUP BY handoff_key, revision
    )
    GROUP BY handoff_key
)
WHERE ever_written > 0;
