-- The facts: what sources said. Nothing here is ever updated; the same fact
-- stored again collapses into the one that arrived first.
--
-- What is answered must survive a power loss: inserts, their folders and merges
-- are synced. Inserted blocks stay compact parts (one data file instead of two
-- per column), or every insert would sync sixty files.

-- +goose Up
CREATE TABLE IF NOT EXISTS events
(
    id            UUID COMMENT 'what the source says identifies the call',
    content       UUID COMMENT 'hash of everything said but the arrival',
    source_id     String COMMENT 'identity as the source wrote it, empty if derived from the content',
    feed          LowCardinality(String),
    time          DateTime64(3, 'UTC') COMMENT 'by the source',
    arrived       DateTime64(3, 'UTC') COMMENT 'by the receiver',
    project       LowCardinality(String),
    repo          LowCardinality(String),
    kind          LowCardinality(String),
    task          String,
    issue         String,
    run           String,
    session       String,
    model         LowCardinality(String),
    effort        LowCardinality(String),
    agent         LowCardinality(String),
    input_tokens           UInt64 COMMENT 'never includes cached tokens',
    output_tokens          UInt64,
    cache_read_tokens      UInt64,
    cache_write_tokens     UInt64 COMMENT 'all cache writes',
    cache_write_5m_tokens  UInt64 COMMENT 'the part known to live 5 minutes',
    cache_write_1h_tokens  UInt64 COMMENT 'the part known to live 1 hour',
    web_searches  UInt64,
    speed         LowCardinality(String),
    batch         Bool,
    inference_geo LowCardinality(String),
    reported_nano Nullable(Int64) COMMENT 'nano-dollars as reported by the source',
    duration_ms   UInt64,
    batch_id      UInt64 COMMENT 'the insert that brought it',
    INDEX by_id id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_run run TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_session session TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_batch batch_id TYPE minmax GRANULARITY 1,
    INDEX by_arrival arrived TYPE minmax GRANULARITY 1,
    -- The earliest arrival of a fact is the canonical one, so it must win.
    earliest      UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
PARTITION BY toYYYYMM(time)
ORDER BY (toStartOfFiveMinutes(time), id, content)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE TABLE IF NOT EXISTS samples
(
    run      String,
    id       UUID COMMENT 'of run, counters and push count',
    pod      String,
    arrived  DateTime64(3, 'UTC'),
    pushes   UInt64 COMMENT 'pushes that the process had attempted before this one',
    counters String COMMENT 'JSON of the counters that are kept' CODEC(ZSTD(3)),
    earliest UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
ORDER BY (run, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE TABLE IF NOT EXISTS ends
(
    run     String,
    pod     String,
    arrived DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (run, arrived)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE TABLE IF NOT EXISTS links
(
    run         String,
    pod         String,
    task        String,
    session     String,
    issue       String,
    handoff_key String,
    kind        String,
    repo        String,
    project     String,
    effort      String,
    arrived     DateTime64(3, 'UTC'),
    INDEX by_session session TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree
ORDER BY (run, arrived, pod, task, session, issue, handoff_key, kind, repo, project, effort)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

-- Duplicates raise a maximum to itself, so this survives every retry.
CREATE TABLE IF NOT EXISTS heard
(
    feed    LowCardinality(String),
    project LowCardinality(String),
    first   SimpleAggregateFunction(min, DateTime64(3, 'UTC')),
    last    SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (feed, project);
