-- What Grafana, the API and the reports read. The views are the contract; the
-- tables behind them may change.

-- +goose Up
CREATE VIEW IF NOT EXISTS spend
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    -- Evaluated once for the whole query, so both halves agree on what is dirty.
    (
        SELECT (
            groupUniqArrayIf(bucket, state < 2),
            groupUniqArrayIf(toStartOfHour(bucket), state < 3)
        )
        FROM marks FINAL
    ) AS dirty
SELECT
    bucket AS time,
    feed, project, repo, kind, task, issue, run, session, model, effort, agent,
    requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
    cache_write_5m_tokens, cache_write_1h_tokens, web_searches, unpriced_tokens, reported_nano,
    computed_nano, cost_nano, savings_nano, approximate, estimated,
    toDecimal128(cost_nano, 9) / 1000000000 AS cost_usd,
    toDecimal128(reported_nano, 9) / 1000000000 AS reported_cost_usd,
    toDecimal128(computed_nano, 9) / 1000000000 AS computed_cost_usd,
    toDecimal128(savings_nano, 9) / 1000000000 AS cache_savings_usd
FROM
(
    SELECT
        bucket,
        row.feed AS feed, row.project AS project, row.repo AS repo, row.kind AS kind,
        row.task AS task, row.issue AS issue, row.run AS run, row.session AS session,
        row.model AS model, row.effort AS effort, row.agent AS agent,
        row.requests AS requests, row.input_tokens AS input_tokens,
        row.output_tokens AS output_tokens, row.cache_read_tokens AS cache_read_tokens,
        row.cache_write_tokens AS cache_write_tokens,
        row.cache_write_5m_tokens AS cache_write_5m_tokens,
        row.cache_write_1h_tokens AS cache_write_1h_tokens, row.web_searches AS web_searches,
        row.unpriced_tokens AS unpriced_tokens, row.reported_nano AS reported_nano,
        row.computed_nano AS computed_nano, row.cost_nano AS cost_nano,
        row.savings_nano AS savings_nano, row.approximate AS approximate, row.estimated AS estimated
    FROM spend_5m FINAL ARRAY JOIN row
    WHERE bucket NOT IN (dirty.1)
    UNION ALL
    SELECT
        bucket,
        feed, project, repo, kind, task, issue, run, session, model, effort, agent,
        requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
        cache_write_5m_tokens, cache_write_1h_tokens, web_searches, unpriced_tokens, reported_nano,
        computed_nano, cost_nano, savings_nano, approximate, estimated
    FROM charges FINAL
    WHERE bucket IN (dirty.1) AND counted
);

-- The same by the hour and without task, issue, run and session: for long ranges.
CREATE VIEW IF NOT EXISTS spend_hourly
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    -- Evaluated once for the whole query, so both halves agree on what is dirty.
    (
        SELECT (
            groupUniqArrayIf(bucket, state < 2),
            groupUniqArrayIf(toStartOfHour(bucket), state < 3)
        )
        FROM marks FINAL
    ) AS dirty
SELECT
    bucket AS time,
    feed, project, repo, kind, model, effort, agent,
    requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
    cache_write_5m_tokens, cache_write_1h_tokens, web_searches, unpriced_tokens, reported_nano,
    computed_nano, cost_nano, savings_nano, approximate, estimated,
    toDecimal128(cost_nano, 9) / 1000000000 AS cost_usd,
    toDecimal128(reported_nano, 9) / 1000000000 AS reported_cost_usd,
    toDecimal128(computed_nano, 9) / 1000000000 AS computed_cost_usd,
    toDecimal128(savings_nano, 9) / 1000000000 AS cache_savings_usd
FROM
(
    SELECT
        bucket,
        row.feed AS feed, row.project AS project, row.repo AS repo, row.kind AS kind,
        row.model AS model, row.effort AS effort, row.agent AS agent,
        row.requests AS requests, row.input_tokens AS input_tokens,
        row.output_tokens AS output_tokens, row.cache_read_tokens AS cache_read_tokens,
        row.cache_write_tokens AS cache_write_tokens,
        row.cache_write_5m_tokens AS cache_write_5m_tokens,
        row.cache_write_1h_tokens AS cache_write_1h_tokens, row.web_searches AS web_searches,
        row.unpriced_tokens AS unpriced_tokens, row.reported_nano AS reported_nano,
        row.computed_nano AS computed_nano, row.cost_nano AS cost_nano,
        row.savings_nano AS savings_nano, row.approximate AS approximate, row.estimated AS estimated
    FROM spend_1h FINAL ARRAY JOIN row
    WHERE bucket NOT IN (dirty.2)
    UNION ALL
    SELECT
        toStartOfHour(spend_5m.bucket) AS bucket,
        row.feed AS feed, row.project AS project, row.repo AS repo, row.kind AS kind,
        row.model AS model, row.effort AS effort, row.agent AS agent,
        row.requests AS requests, row.input_tokens AS input_tokens,
        row.output_tokens AS output_tokens, row.cache_read_tokens AS cache_read_tokens,
        row.cache_write_tokens AS cache_write_tokens,
        row.cache_write_5m_tokens AS cache_write_5m_tokens,
        row.cache_write_1h_tokens AS cache_write_1h_tokens, row.web_searches AS web_searches,
        row.unpriced_tokens AS unpriced_tokens, row.reported_nano AS reported_nano,
        row.computed_nano AS computed_nano, row.cost_nano AS cost_nano,
        row.savings_nano AS savings_nano, row.approximate AS approximate, row.estimated AS estimated
    FROM spend_5m FINAL ARRAY JOIN row
    WHERE toStartOfHour(spend_5m.bucket) IN (dirty.2) AND spend_5m.bucket NOT IN (dirty.1)
    UNION ALL
    SELECT
        toStartOfHour(charges.bucket) AS bucket,
        feed, project, repo, kind, model, effort, agent,
        requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
        cache_write_5m_tokens, cache_write_1h_tokens, web_searches, unpriced_tokens, reported_nano,
        computed_nano, cost_nano, savings_nano, approximate, estimated
    FROM charges FINAL
    WHERE charges.bucket IN (dirty.1) AND counted
);

CREATE VIEW IF NOT EXISTS tasks
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
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
FROM spend
WHERE task != ''
GROUP BY task;

CREATE VIEW IF NOT EXISTS runs
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
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
        argMax(project, time) AS project, argMax(repo, time) AS repo, argMax(kind, time) AS kind,
        argMax(task, time) AS task, argMax(issue, time) AS issue, argMax(session, time) AS session,
        min(time) AS first_time, max(time) AS last_time,
        sum(requests) AS requests,
        sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
        sum(cache_read_tokens) AS cache_read_tokens, sum(cache_write_tokens) AS cache_write_tokens,
        sum(unpriced_tokens) AS unpriced_tokens,
        sum(cost_usd) AS cost_usd, sum(reported_cost_usd) AS reported_cost_usd,
        sum(computed_cost_usd) AS computed_cost_usd, sum(cache_savings_usd) AS cache_savings_usd,
        max(approximate) AS approximate, max(estimated) AS estimated
    FROM spend
    WHERE run != ''
    GROUP BY run
) AS s
FULL JOIN (SELECT * FROM run_summaries FINAL) AS p USING (run);

CREATE VIEW IF NOT EXISTS turns
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    bucket AS time, project, repo, kind, task, issue, run, session, effort,
    result,
    if(name = 'turns', count, 0) AS turns,
    if(name = 'turn_durations', count, 0) AS timed_turns,
    seconds AS duration_seconds,
    bounds AS duration_bounds,
    buckets AS duration_buckets
FROM activity FINAL
WHERE name IN ('turns', 'turn_durations');

CREATE VIEW IF NOT EXISTS tools
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT
    bucket AS time, project, repo, kind, task, issue, run, session, effort,
    tool, outcome, count AS calls
FROM activity FINAL
WHERE name = 'tools';

CREATE VIEW IF NOT EXISTS sources
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
SELECT feed, project, min(first) AS first_heard, max(last) AS last_heard
FROM heard
GROUP BY feed, project;
