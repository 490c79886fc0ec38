CREATE TABLE tatara_ledger.activity
(
    `bucket` DateTime('UTC'),
    `fact_run` String,
    `id` UUID,
    `version` UInt64,
    `deleted` UInt8,
    `time` DateTime64(3, 'UTC'),
    `feed` LowCardinality(String),
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `task` String,
    `issue` String,
    `run` String,
    `session` String,
    `effort` LowCardinality(String),
    `name` LowCardinality(String) COMMENT 'turns, tools or turn_durations',
    `result` LowCardinality(String),
    `tool` LowCardinality(String),
    `outcome` LowCardinality(String),
    `count` UInt64,
    `seconds` Float64,
    `bounds` Array(Float64),
    `buckets` Array(UInt64)
)
ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(bucket)
ORDER BY (bucket, fact_run, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE TABLE tatara_ledger.alert_facts
(
    `id` UUID COMMENT 'of the transition',
    `time` DateTime64(6, 'UTC') COMMENT 'when it happened',
    `arrived` DateTime64(3, 'UTC') COMMENT 'when it was copied',
    `alertname` LowCardinality(String),
    `state` LowCardinality(String) COMMENT 'firing or resolved',
    `task` String,
    `project` LowCardinality(String) COMMENT 'as of the first crossing of the task, as are repo and kind',
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `threshold` UInt16 COMMENT 'percent of the limit; 0: none',
    `episode` UInt64 COMMENT 'how often the alert has begun to fire',
    `value` Int64 COMMENT 'at the crossing: nano-dollars, tokens or a count',
    `limit` Int64,
    `summary` String,
    `starts_at` DateTime64(6, 'UTC'),
    `reason` LowCardinality(String) COMMENT 'why it was resolved',
    `earliest` UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
PARTITION BY toYYYYMM(time)
ORDER BY (time, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE VIEW tatara_ledger.alerts
(
    `time` DateTime64(6, 'UTC'),
    `alertname` LowCardinality(String),
    `state` LowCardinality(String),
    `task` String,
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `threshold` UInt16,
    `episode` UInt64,
    `value` Int64,
    `limit` Int64,
    `summary` String,
    `starts_at` DateTime64(6, 'UTC'),
    `reason` LowCardinality(String)
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    time,
    alertname,
    state,
    task,
    project,
    repo,
    kind,
    threshold,
    episode,
    value,
    limit,
    summary,
    starts_at,
    reason
FROM tatara_ledger.alert_facts
FINAL;

CREATE TABLE tatara_ledger.annotation_facts
(
    `id` UUID COMMENT 'as of outcomes',
    `time` DateTime64(3, 'UTC') COMMENT 'by the source',
    `arrived` DateTime64(3, 'UTC') COMMENT 'by the receiver',
    `project` LowCardinality(String),
    `text` String,
    `tags` Array(String),
    `earliest` UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
ORDER BY id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE VIEW tatara_ledger.annotations
(
    `time` DateTime64(6, 'UTC'),
    `time_end` Nullable(DateTime64(6, 'UTC')),
    `project` String,
    `task` String,
    `text` String,
    `tags` Array(String)
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    toDateTime64(time, 6, 'UTC') AS time,
    CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') AS time_end,
    project,
    '' AS task,
    text,
    tags
FROM tatara_ledger.annotation_facts
FINAL
UNION ALL
SELECT
    fired AS time,
    resolved AS time_end,
    labels.1 AS project,
    task,
    labels.4 AS text,
    arrayFilter(tag -> (tag != ''), ['alert', toString(alertname), toString(labels.3), toString(labels.2)]) AS tags
FROM
(
    SELECT
        task,
        alertname,
        minIf(time, state = 'firing') AS fired,
        minOrNullIf(time, state = 'resolved') AS resolved,
        argMinIf((project, repo, kind, summary), time, state = 'firing') AS labels,
        countIf(state = 'firing') AS firings
    FROM tatara_ledger.alert_facts
    FINAL
    GROUP BY
        task,
        alertname,
        threshold,
        episode
)
WHERE firings > 0;

CREATE TABLE tatara_ledger.charges
(
    `bucket` DateTime('UTC') COMMENT 'start of 5 minutes',
    `fact_run` String COMMENT 'the run as the fact says it, before any link',
    `id` UUID,
    `version` UInt64 COMMENT 'server time in ns before the facts were read',
    `deleted` UInt8,
    `time` DateTime64(3, 'UTC'),
    `feed` LowCardinality(String),
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `task` String,
    `issue` String,
    `run` String,
    `session` String,
    `model` LowCardinality(String),
    `effort` LowCardinality(String),
    `agent` LowCardinality(String),
    `requests` Nullable(UInt64) COMMENT 'null: the feed does not know',
    `input_tokens` UInt64,
    `output_tokens` UInt64,
    `cache_read_tokens` UInt64,
    `cache_write_tokens` UInt64,
    `cache_write_5m_tokens` UInt64,
    `cache_write_1h_tokens` UInt64,
    `web_searches` UInt64,
    `unpriced_tokens` UInt64,
    `reported_nano` Nullable(Int64),
    `computed_nano` Nullable(Int64),
    `cost_nano` Nullable(Int64) COMMENT 'what counts',
    `savings_nano` Nullable(Int64),
    `approximate` UInt8,
    `estimated` UInt8,
    `counted` UInt8 COMMENT '0: a more trusted feed speaks of the same spend',
    `price_row` LowCardinality(String)
)
ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(bucket)
ORDER BY (bucket, fact_run, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE VIEW tatara_ledger.chat_events
(
    `time` DateTime64(6, 'UTC'),
    `arrived_at` DateTime64(3, 'UTC'),
    `id` UUID,
    `action` LowCardinality(String),
    `actor` String,
    `request_id` String,
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `handoff_key` String,
    `revision` UInt64,
    `age_seconds` Float64,
    `room_id` Nullable(UUID),
    `participant_id` Nullable(UUID),
    `message_id` UInt64,
    `direct` Bool,
    `bytes` UInt64,
    `approximate_tokens` UInt64,
    `best_effort` UInt8
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    time,
    arrived AS arrived_at,
    id,
    action,
    actor,
    request_id,
    project,
    repo,
    kind,
    handoff_key,
    revision,
    age_ms / 1000 AS age_seconds,
    room_id,
    participant_id,
    message_id,
    direct,
    bytes,
    intDiv(bytes + 3, 4) AS approximate_tokens,
    CAST(action = 'handoff_read', 'UInt8') AS best_effort
FROM tatara_ledger.chat_facts
FINAL;

CREATE TABLE tatara_ledger.chat_facts
(
    `id` UUID COMMENT 'of the event, given where it happened',
    `time` DateTime64(6, 'UTC') COMMENT 'when it happened',
    `arrived` DateTime64(3, 'UTC') COMMENT 'when it was copied',
    `action` LowCardinality(String),
    `actor` String,
    `request_id` String COMMENT 'the run, where the caller is a wrapper',
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String) COMMENT 'of the handoff, or of the message',
    `handoff_key` String COMMENT 'empty: an event of a room',
    `revision` UInt64,
    `age_ms` UInt64 COMMENT 'of the handoff when it was read',
    `room_id` Nullable(UUID),
    `participant_id` Nullable(UUID),
    `message_id` UInt64,
    `direct` Bool COMMENT 'a message for one participant',
    `bytes` UInt64 COMMENT 'size of the body',
    `earliest` UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
PARTITION BY toYYYYMM(time)
ORDER BY (handoff_key, time, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE TABLE tatara_ledger.disputes
(
    `id` UUID,
    `content` UUID,
    `lost` UInt8,
    `version` UInt64 COMMENT 'server time in ns before the events were read'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (id, content)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, index_granularity = 8192;

CREATE TABLE tatara_ledger.ends
(
    `run` String,
    `pod` String,
    `arrived` DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (run, arrived)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE TABLE tatara_ledger.events
(
    `id` UUID COMMENT 'what the source says identifies the call',
    `content` UUID COMMENT 'hash of everything said but the arrival',
    `source_id` String COMMENT 'identity as the source wrote it, empty if derived from the content',
    `feed` LowCardinality(String),
    `time` DateTime64(3, 'UTC') COMMENT 'by the source',
    `arrived` DateTime64(3, 'UTC') COMMENT 'by the receiver',
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `task` String,
    `issue` String,
    `run` String,
    `session` String,
    `model` LowCardinality(String),
    `effort` LowCardinality(String),
    `agent` LowCardinality(String),
    `input_tokens` UInt64 COMMENT 'never includes cached tokens',
    `output_tokens` UInt64,
    `cache_read_tokens` UInt64,
    `cache_write_tokens` UInt64 COMMENT 'all cache writes',
    `cache_write_5m_tokens` UInt64 COMMENT 'the part known to live 5 minutes',
    `cache_write_1h_tokens` UInt64 COMMENT 'the part known to live 1 hour',
    `web_searches` UInt64,
    `speed` LowCardinality(String),
    `batch` Bool,
    `inference_geo` LowCardinality(String),
    `reported_nano` Nullable(Int64) COMMENT 'nano-dollars as reported by the source',
    `duration_ms` UInt64,
    `batch_id` UInt64 COMMENT 'the insert that brought it',
    `earliest` UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived))),
    INDEX by_id id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_run run TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_session session TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_batch batch_id TYPE minmax GRANULARITY 1,
    INDEX by_arrival arrived TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(earliest)
PARTITION BY toYYYYMM(time)
ORDER BY (toStartOfFiveMinutes(time), id, content)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE VIEW tatara_ledger.handoffs
(
    `handoff_key` String,
    `project` String,
    `repo` String,
    `kind` String,
    `state` String,
    `updated_at` DateTime64(6, 'UTC'),
    `revision` UInt64,
    `bytes` UInt64,
    `approximate_tokens` UInt64,
    `written_by` String,
    `request_id` String,
    `reads` UInt64,
    `reads_since_write` UInt64,
    `last_read_at` Nullable(DateTime64(6, 'UTC'))
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
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
        argMaxIf(project, revision, (action IN ('handoff_written', 'handoff_restored'))) AS last_project,
        argMaxIf(repo, revision, (action IN ('handoff_written', 'handoff_restored'))) AS last_repo,
        argMaxIf(kind, revision, (action IN ('handoff_written', 'handoff_restored'))) AS last_kind,
        argMaxIf(time, revision, (action IN ('handoff_written', 'handoff_restored'))) AS last_time,
        argMaxIf(bytes, revision, (action IN ('handoff_written', 'handoff_restored'))) AS last_bytes,
        argMaxIf(actor, revision, (action IN ('handoff_written', 'handoff_restored'))) AS last_actor,
        argMaxIf(request_id, revision, (action IN ('handoff_written', 'handoff_restored'))) AS last_request_id,
        maxIf(revision, (action IN ('handoff_written', 'handoff_restored'))) AS last_revision,
        countIf(action IN ('handoff_written', 'handoff_restored')) AS writes,
        maxIf(revision, action = 'handoff_deleted') AS ended,
        groupArrayIf(revision, action = 'handoff_read') AS read_revisions,
        maxOrNullIf(time, action = 'handoff_read') AS last_read
    FROM tatara_ledger.chat_facts
    FINAL
    WHERE handoff_key != ''
    GROUP BY handoff_key
)
WHERE writes > 0;

CREATE VIEW tatara_ledger.health
(
    `time` DateTime64(3, 'UTC'),
    `instance` LowCardinality(String),
    `name` LowCardinality(String),
    `labels` Map(LowCardinality(String), String),
    `value` Float64,
    `increase` Nullable(Float64)
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    time,
    instance,
    name,
    labels,
    value,
    increase
FROM tatara_ledger.health_samples;

CREATE TABLE tatara_ledger.health_samples
(
    `time` DateTime64(3, 'UTC') COMMENT 'by the replica' CODEC(DoubleDelta, ZSTD(1)),
    `instance` LowCardinality(String) COMMENT 'the replica',
    `name` LowCardinality(String) COMMENT 'of the series; of a histogram, its _sum or _count',
    `labels` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `value` Float64 CODEC(ZSTD(1)),
    `increase` Nullable(Float64) COMMENT 'of a counter since the replica stored it last; null: a gauge' CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toMonday(time)
ORDER BY (name, time)
TTL toDateTime(time, 'UTC') + toIntervalDay(90)
SETTINGS ttl_only_drop_parts = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE TABLE tatara_ledger.heard
(
    `feed` LowCardinality(String),
    `project` LowCardinality(String),
    `first` SimpleAggregateFunction(min, DateTime64(3, 'UTC')),
    `last` SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (feed, project)
SETTINGS index_granularity = 8192;

CREATE TABLE tatara_ledger.label_values
(
    `label` LowCardinality(String),
    `value` String
)
ENGINE = ReplacingMergeTree
ORDER BY (label, value)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, index_granularity = 8192;

CREATE TABLE tatara_ledger.links
(
    `run` String,
    `pod` String,
    `task` String,
    `session` String,
    `issue` String,
    `handoff_key` String,
    `kind` String,
    `repo` String,
    `project` String,
    `effort` String,
    `arrived` DateTime64(3, 'UTC'),
    INDEX by_session session TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree
ORDER BY (run, arrived, pod, task, session, issue, handoff_key, kind, repo, project, effort)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE TABLE tatara_ledger.marks
(
    `bucket` DateTime('UTC'),
    `mark` UInt64 COMMENT 'one attempt to write charges of the bucket',
    `state` UInt8 COMMENT '0 open, 1 written, 2 in the 5-minute rollup, 3 in the hourly rollup',
    `changed` DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(state)
ORDER BY (bucket, mark)
TTL toDateTime(changed) + toIntervalDay(1) WHERE state = 3
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE TABLE tatara_ledger.outcome_facts
(
    `id` UUID COMMENT 'what the source says identifies the outcome, or the hash of what it says',
    `time` DateTime64(3, 'UTC') COMMENT 'by the source',
    `arrived` DateTime64(3, 'UTC') COMMENT 'by the receiver',
    `task` String,
    `outcome` LowCardinality(String),
    `detail` String,
    `earliest` UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
ORDER BY id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE VIEW tatara_ledger.outcomes
(
    `time` DateTime64(3, 'UTC'),
    `arrived_at` DateTime64(3, 'UTC'),
    `id` UUID,
    `task` String,
    `outcome` LowCardinality(String),
    `detail` String
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    time,
    arrived AS arrived_at,
    id,
    task,
    outcome,
    detail
FROM tatara_ledger.outcome_facts
FINAL;

CREATE VIEW tatara_ledger.rooms
(
    `room_id` UUID,
    `state` String,
    `created_at` Nullable(DateTime64(6, 'UTC')),
    `archived_at` Nullable(DateTime64(6, 'UTC')),
    `last_active_at` DateTime64(6, 'UTC'),
    `last_message_at` Nullable(DateTime64(6, 'UTC')),
    `created_by` String,
    `participants` UInt64,
    `departed` UInt64,
    `messages` UInt64,
    `direct_messages` UInt64,
    `bytes` UInt64
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    assumeNotNull(chat_facts.room_id) AS room_id,
    if(countIf((action IN ('room_archived', 'room_expired'))) > 0, 'archived', 'active') AS state,
    minOrNullIf(time, action = 'room_created') AS created_at,
    minOrNullIf(time, (action IN ('room_archived', 'room_expired'))) AS archived_at,
    max(time) AS last_active_at,
    maxOrNullIf(time, action = 'message_sent') AS last_message_at,
    anyIf(actor, action = 'room_created') AS created_by,
    uniqExactIf(participant_id, action = 'participant_joined') AS participants,
    uniqExactIf(participant_id, action = 'participant_left') AS departed,
    countIf(action = 'message_sent') AS messages,
    countIf((action = 'message_sent') AND direct) AS direct_messages,
    sumIf(bytes, action = 'message_sent') AS bytes
FROM tatara_ledger.chat_facts
FINAL
WHERE (handoff_key = '') AND (chat_facts.room_id IS NOT NULL)
GROUP BY chat_facts.room_id;

CREATE TABLE tatara_ledger.run_summaries
(
    `run` String,
    `version` UInt64,
    `pod` String,
    `project` String,
    `repo` String,
    `kind` String,
    `task` String,
    `issue` String,
    `session` String,
    `effort` String,
    `lives` UInt64,
    `first_seen` DateTime64(3, 'UTC'),
    `last_seen` DateTime64(3, 'UTC'),
    `ended` Nullable(DateTime64(3, 'UTC'))
)
ENGINE = ReplacingMergeTree(version)
ORDER BY run
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE VIEW tatara_ledger.runs
(
    `run` String,
    `pod` String,
    `project` String,
    `repo` String,
    `kind` String,
    `task` String,
    `issue` String,
    `session` String,
    `lives` UInt64,
    `first_seen` DateTime64(3, 'UTC'),
    `last_seen` DateTime64(3, 'UTC'),
    `ended` Nullable(DateTime64(3, 'UTC')),
    `requests` Nullable(UInt64),
    `input_tokens` UInt64,
    `output_tokens` UInt64,
    `cache_read_tokens` UInt64,
    `cache_write_tokens` UInt64,
    `unpriced_tokens` UInt64,
    `cost_usd` Nullable(Decimal(38, 9)),
    `reported_cost_usd` Nullable(Decimal(38, 9)),
    `computed_cost_usd` Nullable(Decimal(38, 9)),
    `cache_savings_usd` Nullable(Decimal(38, 9)),
    `approximate` UInt8,
    `estimated` UInt8
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    run,
    if(p.run != '', p.pod, '') AS pod,
    if(s.run != '', s.project, p.project) AS project,
    if(s.run != '', s.repo, p.repo) AS repo,
    if(s.run != '', s.kind, p.kind) AS kind,
    if(s.run != '', s.task, p.task) AS task,
    if(s.run != '', s.issue, p.issue) AS issue,
    if(s.run != '', s.session, p.session) AS session,
    if(p.run != '', p.lives, 1) AS lives,
    if(p.run != '', p.first_seen, toDateTime64(s.first_time, 3, 'UTC')) AS first_seen,
    if(p.run != '', p.last_seen, toDateTime64(s.last_time, 3, 'UTC')) AS last_seen,
    p.ended AS ended,
    s.requests AS requests,
    s.input_tokens AS input_tokens,
    s.output_tokens AS output_tokens,
    s.cache_read_tokens AS cache_read_tokens,
    s.cache_write_tokens AS cache_write_tokens,
    s.unpriced_tokens AS unpriced_tokens,
    s.cost_usd AS cost_usd,
    s.reported_cost_usd AS reported_cost_usd,
    s.computed_cost_usd AS computed_cost_usd,
    s.cache_savings_usd AS cache_savings_usd,
    s.approximate AS approximate,
    s.estimated AS estimated
FROM
(
    SELECT
        run,
        argMax(project, time) AS project,
        argMax(repo, time) AS repo,
        argMax(kind, time) AS kind,
        argMax(task, time) AS task,
        argMax(issue, time) AS issue,
        argMax(session, time) AS session,
        min(time) AS first_time,
        max(time) AS last_time,
        sum(requests) AS requests,
        sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens,
        sum(cache_read_tokens) AS cache_read_tokens,
        sum(cache_write_tokens) AS cache_write_tokens,
        sum(unpriced_tokens) AS unpriced_tokens,
        sum(cost_usd) AS cost_usd,
        sum(reported_cost_usd) AS reported_cost_usd,
        sum(computed_cost_usd) AS computed_cost_usd,
        sum(cache_savings_usd) AS cache_savings_usd,
        max(approximate) AS approximate,
        max(estimated) AS estimated
    FROM tatara_ledger.spend
    WHERE run != ''
    GROUP BY run
) AS s
FULL OUTER JOIN
(
    SELECT *
    FROM tatara_ledger.run_summaries
    FINAL
) AS p USING (run);

CREATE TABLE tatara_ledger.samples
(
    `run` String,
    `id` UUID COMMENT 'of run, counters and push count',
    `pod` String,
    `arrived` DateTime64(3, 'UTC'),
    `pushes` UInt64 COMMENT 'pushes that the process had attempted before this one',
    `counters` String COMMENT 'JSON of the counters that are kept' CODEC(ZSTD(3)),
    `earliest` UInt64 MATERIALIZED bitNot(toUInt64(toUnixTimestamp64Milli(arrived)))
)
ENGINE = ReplacingMergeTree(earliest)
ORDER BY (run, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE VIEW tatara_ledger.sources
(
    `feed` LowCardinality(String),
    `project` LowCardinality(String),
    `first_heard` SimpleAggregateFunction(min, DateTime64(3, 'UTC')),
    `last_heard` SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    feed,
    project,
    min(first) AS first_heard,
    max(last) AS last_heard
FROM tatara_ledger.heard
GROUP BY
    feed,
    project;

CREATE VIEW tatara_ledger.spend
(
    `time` DateTime('UTC'),
    `feed` LowCardinality(String),
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `task` String,
    `issue` String,
    `run` String,
    `session` String,
    `model` LowCardinality(String),
    `effort` LowCardinality(String),
    `agent` LowCardinality(String),
    `requests` Nullable(UInt64),
    `input_tokens` UInt64,
    `output_tokens` UInt64,
    `cache_read_tokens` UInt64,
    `cache_write_tokens` UInt64,
    `cache_write_5m_tokens` UInt64,
    `cache_write_1h_tokens` UInt64,
    `web_searches` UInt64,
    `unpriced_tokens` UInt64,
    `reported_nano` Nullable(Int64),
    `computed_nano` Nullable(Int64),
    `cost_nano` Nullable(Int64),
    `savings_nano` Nullable(Int64),
    `approximate` UInt8,
    `estimated` UInt8,
    `cost_usd` Nullable(Decimal(38, 9)),
    `reported_cost_usd` Nullable(Decimal(38, 9)),
    `computed_cost_usd` Nullable(Decimal(38, 9)),
    `cache_savings_usd` Nullable(Decimal(38, 9))
)
DEFINER = default SQL SECURITY DEFINER
AS WITH
    (
        SELECT (groupUniqArrayIf(bucket, state < 2), groupUniqArrayIf(toStartOfHour(bucket), state < 3))
        FROM tatara_ledger.marks
        FINAL
    ) AS dirty
SELECT
    bucket AS time,
    feed,
    project,
    repo,
    kind,
    task,
    issue,
    run,
    session,
    model,
    effort,
    agent,
    requests,
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
    cache_write_5m_tokens,
    cache_write_1h_tokens,
    web_searches,
    unpriced_tokens,
    reported_nano,
    computed_nano,
    cost_nano,
    savings_nano,
    approximate,
    estimated,
    toDecimal128(cost_nano, 9) / 1000000000 AS cost_usd,
    toDecimal128(reported_nano, 9) / 1000000000 AS reported_cost_usd,
    toDecimal128(computed_nano, 9) / 1000000000 AS computed_cost_usd,
    toDecimal128(savings_nano, 9) / 1000000000 AS cache_savings_usd
FROM
(
    SELECT
        bucket,
        row.feed AS feed,
        row.project AS project,
        row.repo AS repo,
        row.kind AS kind,
        row.task AS task,
        row.issue AS issue,
        row.run AS run,
        row.session AS session,
        row.model AS model,
        row.effort AS effort,
        row.agent AS agent,
        row.requests AS requests,
        row.input_tokens AS input_tokens,
        row.output_tokens AS output_tokens,
        row.cache_read_tokens AS cache_read_tokens,
        row.cache_write_tokens AS cache_write_tokens,
        row.cache_write_5m_tokens AS cache_write_5m_tokens,
        row.cache_write_1h_tokens AS cache_write_1h_tokens,
        row.web_searches AS web_searches,
        row.unpriced_tokens AS unpriced_tokens,
        row.reported_nano AS reported_nano,
        row.computed_nano AS computed_nano,
        row.cost_nano AS cost_nano,
        row.savings_nano AS savings_nano,
        row.approximate AS approximate,
        row.estimated AS estimated
    FROM tatara_ledger.spend_5m
    FINAL
    ARRAY JOIN row
    WHERE bucket NOT IN (dirty.1)
    UNION ALL
    SELECT
        bucket,
        feed,
        project,
        repo,
        kind,
        task,
        issue,
        run,
        session,
        model,
        effort,
        agent,
        requests,
        input_tokens,
        output_tokens,
        cache_read_tokens,
        cache_write_tokens,
        cache_write_5m_tokens,
        cache_write_1h_tokens,
        web_searches,
        unpriced_tokens,
        reported_nano,
        computed_nano,
        cost_nano,
        savings_nano,
        approximate,
        estimated
    FROM tatara_ledger.charges
    FINAL
    WHERE (bucket IN (dirty.1)) AND counted
);

CREATE TABLE tatara_ledger.spend_1h
(
    `bucket` DateTime('UTC'),
    `version` UInt64,
    `row.feed` Array(LowCardinality(String)),
    `row.project` Array(LowCardinality(String)),
    `row.repo` Array(LowCardinality(String)),
    `row.kind` Array(LowCardinality(String)),
    `row.model` Array(LowCardinality(String)),
    `row.effort` Array(LowCardinality(String)),
    `row.agent` Array(LowCardinality(String)),
    `row.requests` Array(Nullable(UInt64)),
    `row.input_tokens` Array(UInt64),
    `row.output_tokens` Array(UInt64),
    `row.cache_read_tokens` Array(UInt64),
    `row.cache_write_tokens` Array(UInt64),
    `row.cache_write_5m_tokens` Array(UInt64),
    `row.cache_write_1h_tokens` Array(UInt64),
    `row.web_searches` Array(UInt64),
    `row.unpriced_tokens` Array(UInt64),
    `row.reported_nano` Array(Nullable(Int64)),
    `row.computed_nano` Array(Nullable(Int64)),
    `row.cost_nano` Array(Nullable(Int64)),
    `row.savings_nano` Array(Nullable(Int64)),
    `row.approximate` Array(UInt8),
    `row.estimated` Array(UInt8)
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(bucket)
ORDER BY bucket
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE TABLE tatara_ledger.spend_5m
(
    `bucket` DateTime('UTC'),
    `version` UInt64 COMMENT 'server time in ns before the marks were read',
    `row.feed` Array(LowCardinality(String)),
    `row.project` Array(LowCardinality(String)),
    `row.repo` Array(LowCardinality(String)),
    `row.kind` Array(LowCardinality(String)),
    `row.task` Array(String),
    `row.issue` Array(String),
    `row.run` Array(String),
    `row.session` Array(String),
    `row.model` Array(LowCardinality(String)),
    `row.effort` Array(LowCardinality(String)),
    `row.agent` Array(LowCardinality(String)),
    `row.requests` Array(Nullable(UInt64)),
    `row.input_tokens` Array(UInt64),
    `row.output_tokens` Array(UInt64),
    `row.cache_read_tokens` Array(UInt64),
    `row.cache_write_tokens` Array(UInt64),
    `row.cache_write_5m_tokens` Array(UInt64),
    `row.cache_write_1h_tokens` Array(UInt64),
    `row.web_searches` Array(UInt64),
    `row.unpriced_tokens` Array(UInt64),
    `row.reported_nano` Array(Nullable(Int64)),
    `row.computed_nano` Array(Nullable(Int64)),
    `row.cost_nano` Array(Nullable(Int64)),
    `row.savings_nano` Array(Nullable(Int64)),
    `row.approximate` Array(UInt8),
    `row.estimated` Array(UInt8)
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(bucket)
ORDER BY bucket
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_bytes_for_wide_part = 134217728, index_granularity = 8192;

CREATE VIEW tatara_ledger.spend_hourly
(
    `time` DateTime('UTC'),
    `feed` LowCardinality(String),
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `model` LowCardinality(String),
    `effort` LowCardinality(String),
    `agent` LowCardinality(String),
    `requests` Nullable(UInt64),
    `input_tokens` UInt64,
    `output_tokens` UInt64,
    `cache_read_tokens` UInt64,
    `cache_write_tokens` UInt64,
    `cache_write_5m_tokens` UInt64,
    `cache_write_1h_tokens` UInt64,
    `web_searches` UInt64,
    `unpriced_tokens` UInt64,
    `reported_nano` Nullable(Int64),
    `computed_nano` Nullable(Int64),
    `cost_nano` Nullable(Int64),
    `savings_nano` Nullable(Int64),
    `approximate` UInt8,
    `estimated` UInt8,
    `cost_usd` Nullable(Decimal(38, 9)),
    `reported_cost_usd` Nullable(Decimal(38, 9)),
    `computed_cost_usd` Nullable(Decimal(38, 9)),
    `cache_savings_usd` Nullable(Decimal(38, 9))
)
DEFINER = default SQL SECURITY DEFINER
AS WITH
    (
        SELECT (groupUniqArrayIf(bucket, state < 2), groupUniqArrayIf(toStartOfHour(bucket), state < 3))
        FROM tatara_ledger.marks
        FINAL
    ) AS dirty
SELECT
    bucket AS time,
    feed,
    project,
    repo,
    kind,
    model,
    effort,
    agent,
    requests,
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
    cache_write_5m_tokens,
    cache_write_1h_tokens,
    web_searches,
    unpriced_tokens,
    reported_nano,
    computed_nano,
    cost_nano,
    savings_nano,
    approximate,
    estimated,
    toDecimal128(cost_nano, 9) / 1000000000 AS cost_usd,
    toDecimal128(reported_nano, 9) / 1000000000 AS reported_cost_usd,
    toDecimal128(computed_nano, 9) / 1000000000 AS computed_cost_usd,
    toDecimal128(savings_nano, 9) / 1000000000 AS cache_savings_usd
FROM
(
    SELECT
        bucket,
        row.feed AS feed,
        row.project AS project,
        row.repo AS repo,
        row.kind AS kind,
        row.model AS model,
        row.effort AS effort,
        row.agent AS agent,
        row.requests AS requests,
        row.input_tokens AS input_tokens,
        row.output_tokens AS output_tokens,
        row.cache_read_tokens AS cache_read_tokens,
        row.cache_write_tokens AS cache_write_tokens,
        row.cache_write_5m_tokens AS cache_write_5m_tokens,
        row.cache_write_1h_tokens AS cache_write_1h_tokens,
        row.web_searches AS web_searches,
        row.unpriced_tokens AS unpriced_tokens,
        row.reported_nano AS reported_nano,
        row.computed_nano AS computed_nano,
        row.cost_nano AS cost_nano,
        row.savings_nano AS savings_nano,
        row.approximate AS approximate,
        row.estimated AS estimated
    FROM tatara_ledger.spend_1h
    FINAL
    ARRAY JOIN row
    WHERE bucket NOT IN (dirty.2)
    UNION ALL
    SELECT
        toStartOfHour(spend_5m.bucket) AS bucket,
        row.feed AS feed,
        row.project AS project,
        row.repo AS repo,
        row.kind AS kind,
        row.model AS model,
        row.effort AS effort,
        row.agent AS agent,
        row.requests AS requests,
        row.input_tokens AS input_tokens,
        row.output_tokens AS output_tokens,
        row.cache_read_tokens AS cache_read_tokens,
        row.cache_write_tokens AS cache_write_tokens,
        row.cache_write_5m_tokens AS cache_write_5m_tokens,
        row.cache_write_1h_tokens AS cache_write_1h_tokens,
        row.web_searches AS web_searches,
        row.unpriced_tokens AS unpriced_tokens,
        row.reported_nano AS reported_nano,
        row.computed_nano AS computed_nano,
        row.cost_nano AS cost_nano,
        row.savings_nano AS savings_nano,
        row.approximate AS approximate,
        row.estimated AS estimated
    FROM tatara_ledger.spend_5m
    FINAL
    ARRAY JOIN row
    WHERE (toStartOfHour(spend_5m.bucket) IN (dirty.2)) AND (spend_5m.bucket NOT IN (dirty.1))
    UNION ALL
    SELECT
        toStartOfHour(charges.bucket) AS bucket,
        feed,
        project,
        repo,
        kind,
        model,
        effort,
        agent,
        requests,
        input_tokens,
        output_tokens,
        cache_read_tokens,
        cache_write_tokens,
        cache_write_5m_tokens,
        cache_write_1h_tokens,
        web_searches,
        unpriced_tokens,
        reported_nano,
        computed_nano,
        cost_nano,
        savings_nano,
        approximate,
        estimated
    FROM tatara_ledger.charges
    FINAL
    WHERE (charges.bucket IN (dirty.1)) AND counted
);

CREATE VIEW tatara_ledger.tasks
(
    `task` String,
    `project` String,
    `repo` String,
    `kind` String,
    `issue` String,
    `first_seen` DateTime('UTC'),
    `last_seen` DateTime('UTC'),
    `runs` UInt64,
    `requests` Nullable(UInt64),
    `input_tokens` UInt64,
    `output_tokens` UInt64,
    `cache_read_tokens` UInt64,
    `cache_write_tokens` UInt64,
    `unpriced_tokens` UInt64,
    `cost_usd` Nullable(Decimal(38, 9)),
    `reported_cost_usd` Nullable(Decimal(38, 9)),
    `computed_cost_usd` Nullable(Decimal(38, 9)),
    `cache_savings_usd` Nullable(Decimal(38, 9)),
    `approximate` UInt8,
    `estimated` UInt8
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    task,
    argMax(project, time) AS project,
    argMax(repo, time) AS repo,
    argMax(kind, time) AS kind,
    argMax(issue, time) AS issue,
    min(time) AS first_seen,
    max(time) AS last_seen,
    uniqExactIf(run, run != '') AS runs,
    sum(requests) AS requests,
    sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(cache_read_tokens) AS cache_read_tokens,
    sum(cache_write_tokens) AS cache_write_tokens,
    sum(unpriced_tokens) AS unpriced_tokens,
    sum(cost_usd) AS cost_usd,
    sum(reported_cost_usd) AS reported_cost_usd,
    sum(computed_cost_usd) AS computed_cost_usd,
    sum(cache_savings_usd) AS cache_savings_usd,
    max(approximate) AS approximate,
    max(estimated) AS estimated
FROM tatara_ledger.spend
WHERE task != ''
GROUP BY task;

CREATE VIEW tatara_ledger.tools
(
    `time` DateTime('UTC'),
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `task` String,
    `issue` String,
    `run` String,
    `session` String,
    `effort` LowCardinality(String),
    `tool` LowCardinality(String),
    `outcome` LowCardinality(String),
    `calls` UInt64
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    bucket AS time,
    project,
    repo,
    kind,
    task,
    issue,
    run,
    session,
    effort,
    tool,
    outcome,
    count AS calls
FROM tatara_ledger.activity
FINAL
WHERE name = 'tools';

CREATE VIEW tatara_ledger.turns
(
    `time` DateTime('UTC'),
    `project` LowCardinality(String),
    `repo` LowCardinality(String),
    `kind` LowCardinality(String),
    `task` String,
    `issue` String,
    `run` String,
    `session` String,
    `effort` LowCardinality(String),
    `result` LowCardinality(String),
    `turns` UInt64,
    `timed_turns` UInt64,
    `duration_seconds` Float64,
    `duration_bounds` Array(Float64),
    `duration_buckets` Array(UInt64)
)
DEFINER = default SQL SECURITY DEFINER
AS SELECT
    bucket AS time,
    project,
    repo,
    kind,
    task,
    issue,
    run,
    session,
    effort,
    result,
    if(name = 'turns', count, 0) AS turns,
    if(name = 'turn_durations', count, 0) AS timed_turns,
    seconds AS duration_seconds,
    bounds AS duration_bounds,
    buckets AS duration_buckets
FROM tatara_ledger.activity
FINAL
WHERE name IN ('turns', 'turn_durations');

