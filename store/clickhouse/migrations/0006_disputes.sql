-- The events under ids that came with several contents, and which of them
-- lost. Rare, so that every batch can look its ids up here: a loser that is
-- posted again, at whatever distance, must stay a loser.

-- +goose Up
CREATE TABLE IF NOT EXISTS disputes
(
    id      UUID,
    content UUID,
    lost    UInt8,
    version UInt64 COMMENT 'server time in ns before the events were read'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (id, content)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
