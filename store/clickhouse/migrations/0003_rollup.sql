-- The rollup: sums per bucket, exact by construction (docs/architecture.md).
--
-- A bucket is dirty while any of its marks is below 2; an hour, while any of
-- its marks is below 3. Dirty buckets are read from the charges, clean ones
-- from the rollup, where one row holds a whole bucket: a reader sees the old
-- row or the new one, never half of each.

-- +goose Up
CREATE TABLE IF NOT EXISTS marks
(
    bucket  DateTime('UTC'),
    mark    UInt64 COMMENT 'one attempt to write charges of the bucket',
    state   UInt8 COMMENT '0 open, 1 written, 2 in the 5-minute rollup, 3 in the hourly rollup',
    changed DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(state)
ORDER BY (bucket, mark)
TTL toDateTime(changed) + INTERVAL 1 DAY DELETE WHERE state = 3
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE TABLE IF NOT EXISTS spend_5m
(
    bucket  DateTime('UTC'),
    version UInt64 COMMENT 'server time in ns before the marks were read',
    row Nested
    (
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
        requests Nullable(UInt64),
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
        cost_nano       Nullable(Int64),
        savings_nano    Nullable(Int64),
        approximate UInt8,
        estimated   UInt8
    )
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(bucket)
ORDER BY bucket
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE TABLE IF NOT EXISTS spend_1h
(
    bucket  DateTime('UTC'),
    version UInt64,
    row Nested
    (
        feed     LowCardinality(String),
        project  LowCardinality(String),
        repo     LowCardinality(String),
        kind     LowCardinality(String),
        model    LowCardinality(String),
        effort   LowCardinality(String),
        agent    LowCardinality(String),
        requests Nullable(UInt64),
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
        cost_nano       Nullable(Int64),
        savings_nano    Nullable(Int64),
        approximate UInt8,
        estimated   UInt8
    )
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(bucket)
ORDER BY bucket
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;
