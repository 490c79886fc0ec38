-- The values of labels that may multiply: what is not here when the bound is
-- reached is folded into 'other'.

-- +goose Up
CREATE TABLE IF NOT EXISTS label_values
(
    label LowCardinality(String),
    value String
)
ENGINE = ReplacingMergeTree
ORDER BY (label, value)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
