-- What follows from the facts. A charge written again under the same key
-- replaces the older derivation; one that vanished is written as deleted.

-- +goose Up
CREATE TABLE IF NOT EXISTS charges
(
    bucket   DateTime('UTC') COMMENT 'start of 5 minutes',
    fact_run String COMMENT 'the run as the fact says it, before any link',
    id       UUID,
    version  UInt64 COMMENT 'server time in ns before the facts were read',
    deleted  UInt8,
    time     DateTime64(3, 'UTC'),
    feed     LowCardinality(String),
    project  LowCardinality(String),
    repo     LowCardinality(String),
    kind     LowCardinality(String),
    task     String,
    issue    String,
    run      String,
    session  String,
    model    LowCardinality(String),
    effort   LowCardinality(String),
    agent    LowCardinality(String),
    requests Nullable(UInt64) COMMENT 'null: the feed does not know',
    input_tokens          UInt64,
    output_tokens         UInt64,
    cache_read_tokens     UInt64,
    cache_write_tokens    UInt64,
    cache_write_5m_tokens UInt64,
    cache_write_1h_tokens UInt64,
    web_searches    UInt64,
    unpriced_tokens UInt64,
    reported_nano   Nullable(Int64),
    computed_nano   Nullable(Int64),
    cost_nano       Nullable(Int64) COMMENT 'what counts',
    savings_nano    Nullable(Int64),
    approximate UInt8,
    estimated   UInt8,
    counted     UInt8 COMMENT '0: a more trusted feed speaks of the same spend',
    price_row   LowCardinality(String)
)
ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(bucket)
ORDER BY (bucket, fact_run, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE TABLE IF NOT EXISTS activity
(
    bucket   DateTime('UTC'),
    fact_run String,
    id       UUID,
    version  UInt64,
    deleted  UInt8,
    time     DateTime64(3, 'UTC'),
    feed     LowCardinality(String),
    project  LowCardinality(String),
    repo     LowCardinality(String),
    kind     LowCardinality(String),
    task     String,
    issue    String,
    run      String,
    session  String,
    effort   LowCardinality(String),
    name     LowCardinality(String) COMMENT 'turns, tools or turn_durations',
    result   LowCardinality(String),
    tool     LowCardinality(String),
    outcome  LowCardinality(String),
    count    UInt64,
    seconds  Float64,
    bounds   Array(Float64),
    buckets  Array(UInt64)
)
ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(bucket)
ORDER BY (bucket, fact_run, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE TABLE IF NOT EXISTS run_summaries
(
    run        String,
    version    UInt64,
    pod        String,
    project    String,
    repo       String,
    kind       String,
    task       String,
    issue      String,
    session    String,
    effort     String,
    lives      UInt64,
    first_seen DateTime64(3, 'UTC'),
    last_seen  DateTime64(3, 'UTC'),
    ended      Nullable(DateTime64(3, 'UTC'))
)
ENGINE = ReplacingMergeTree(version)
ORDER BY run
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;
