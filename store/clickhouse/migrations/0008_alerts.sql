-- Alerts of tasks that began or ceased to fire, copied from the outbox in
-- Postgres. An event that is copied again is the same row and collapses.

-- +goose Up
CREATE TABLE IF NOT EXISTS alert_facts
(
    id        UUID COMMENT 'of the transition',
    time      DateTime64(6, 'UTC') COMMENT 'when it happened',
    arrived   DateTime64(3, 'UTC') COMMENT 'when it was copied',
    alertname LowCardinality(String),
    state     LowCardinality(String) COMMENT 'firing or resolved',
    task      String,
    project   LowCardinality(String) COMMENT 'as of the first crossing of the task, as are repo and kind',
    repo      LowCardinality(String),
    kind      LowCardinality(String),
    threshold UInt16 COMMENT 'percent of the limit; 0: none',
    episode   UInt64 COMMENT 'how often the alert has begun to fire',
    value     Int64 COMMENT 'at the crossing: nano-dollars, tokens or a count',
    limit     Int64,
    summary   String,
    starts_at DateTime64(6, 'UTC'),
    reason    LowCardinality(String) COMMENT 'why it was resolved',
    earliest  UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
PARTITION BY toYYYYMM(time)
ORDER BY (time, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1,
    min_bytes_for_wide_part = 134217728;

CREATE VIEW IF NOT EXISTS alerts
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    time, alertname, state, task, project, repo, kind, threshold, episode,
    value, limit, summary, starts_at, reason
FROM alert_facts FINAL;
