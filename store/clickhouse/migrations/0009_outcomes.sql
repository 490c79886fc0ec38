-- What came of tasks, remarks on the timeline, and the health of the service
-- itself, so that dashboards need nothing but this database.

-- +goose Up
-- The key is what identifies a fact and nothing else: an id that comes back
-- with another time must not count twice. No months therefore; there are a
-- handful per task.
CREATE TABLE IF NOT EXISTS outcome_facts
(
    id       UUID COMMENT 'what the source says identifies the outcome, or the hash of what it says',
    time     DateTime64(3, 'UTC') COMMENT 'by the source',
    arrived  DateTime64(3, 'UTC') COMMENT 'by the receiver',
    task     String,
    outcome  LowCardinality(String),
    detail   String,
    -- As for the other facts, the earliest arrival is the canonical one.
    earliest UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
ORDER BY id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE TABLE IF NOT EXISTS annotation_facts
(
    id       UUID COMMENT 'as of outcomes',
    time     DateTime64(3, 'UTC') COMMENT 'by the source',
    arrived  DateTime64(3, 'UTC') COMMENT 'by the receiver',
    project  LowCardinality(String),
    text     String,
    tags     Array(String),
    earliest UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
ORDER BY id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

-- Samples of the service's own series. They are never repeated and may be lost,
-- so that nothing here is synced or collapsed. A counter that stands still is
-- not in every sample.
CREATE TABLE IF NOT EXISTS health_samples
(
    time     DateTime64(3, 'UTC') COMMENT 'by the replica' CODEC(DoubleDelta, ZSTD(1)),
    instance LowCardinality(String) COMMENT 'the replica',
    name     LowCardinality(String) COMMENT 'of the series; of a histogram, its _sum or _count',
    labels   Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    value    Float64 CODEC(ZSTD(1)),
    increase Nullable(Float64) COMMENT 'of a counter since the replica stored it last; null: a gauge' CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toMonday(time)
ORDER BY (name, time)
TTL toDateTime(time, 'UTC') + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1, min_bytes_for_wide_part = 134217728;

CREATE VIEW IF NOT EXISTS outcomes
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT time, arrived AS arrived_at, id, task, outcome, detail
FROM outcome_facts FINAL;

-- What was posted, and each time that an alert of a task fired: from when to
-- when, without an end while it fires.
CREATE VIEW IF NOT EXISTS annotations
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    toDateTime64(time, 6, 'UTC') AS time,
    CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') AS time_end,
    project, '' AS task, text, tags
FROM annotation_facts FINAL
UNION ALL
SELECT
    fired AS time, resolved AS time_end,
    labels.1 AS project, task, labels.4 AS text,
    arrayFilter(tag -> tag != '', ['alert', toString(alertname), toString(labels.3), toString(labels.2)]) AS tags
FROM
(
    SELECT
        task, alertname,
        minIf(time, state = 'firing') AS fired,
        minOrNullIf(time, state = 'resolved') AS resolved,
        argMinIf((project, repo, kind, summary), time, state = 'firing') AS labels,
        countIf(state = 'firing') AS firings
    FROM alert_facts FINAL
    GROUP BY task, alertname, threshold, episode
)
WHERE firings > 0;

CREATE VIEW IF NOT EXISTS health
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT time, instance, name, labels, value, increase
FROM health_samples;

-- Rooms that were ever created or heard of. Names and bodies stay in Postgres.
CREATE VIEW IF NOT EXISTS rooms
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    assumeNotNull(chat_facts.room_id) AS room_id,
    if(countIf(action IN ('room_archived', 'room_expired')) > 0, 'archived', 'active') AS state,
    minOrNullIf(time, action = 'room_created') AS created_at,
    minOrNullIf(time, action IN ('room_archived', 'room_expired')) AS archived_at,
    max(time) AS last_active_at,
    maxOrNullIf(time, action = 'message_sent') AS last_message_at,
    anyIf(actor, action = 'room_created') AS created_by,
    uniqExactIf(participant_id, action = 'participant_joined') AS participants,
    uniqExactIf(participant_id, action = 'participant_left') AS departed,
    countIf(action = 'message_sent') AS messages,
    countIf(action = 'message_sent' AND direct) AS direct_messages,
    sumIf(bytes, action = 'message_sent') AS bytes
FROM chat_facts FINAL
WHERE handoff_key = '' AND chat_facts.room_id IS NOT NULL
GROUP BY chat_facts.room_id;
