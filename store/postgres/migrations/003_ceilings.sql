-- What somebody set for one task instead of its configured limits, and every
-- change of it.
CREATE TABLE task_ceilings (
    task          text PRIMARY KEY,
    cost_nano     bigint CHECK (cost_nano > 0),
    tokens        bigint CHECK (tokens > 0),
    output_tokens bigint CHECK (output_tokens > 0),
    exempt        boolean NOT NULL,
    set_by        text NOT NULL,
    set_at        timestamptz NOT NULL,
    request_id    text NOT NULL
);

CREATE INDEX task_ceilings_set ON task_ceilings (set_at);

CREATE TABLE task_ceiling_changes (
    change_id     uuid PRIMARY KEY, -- of the request: a repeat of it finds its own work
    task          text NOT NULL,
    cost_nano     bigint,
    tokens        bigint,
    output_tokens bigint,
    exempt        boolean NOT NULL,
    set_by        text NOT NULL,
    set_at        timestamptz NOT NULL,
    request_id    text NOT NULL
);

CREATE INDEX task_ceiling_changes_task ON task_ceiling_changes (task, set_at);

CREATE TABLE task_ends (
    task       text PRIMARY KEY,
    ended_at   timestamptz NOT NULL,
    ended_by   text NOT NULL,
    request_id text NOT NULL
);

CREATE INDEX task_ends_ended ON task_ends (ended_at);

-- The configurations by which replicas judge alerts. While a new one is rolled
-- out, one of them counts, or replicas would undo each other's changes.
CREATE TABLE alert_configurations (
    hash       text PRIMARY KEY,
    started_at timestamptz NOT NULL, -- when a replica with it last started
    seen_at    timestamptz NOT NULL  -- when a replica with it last was alive
);

-- A task's labels as of its first crossing.
CREATE TABLE task_labels (
    task      text PRIMARY KEY,
    project   text NOT NULL,
    repo      text NOT NULL,
    kind      text NOT NULL,
    frozen_at timestamptz NOT NULL
);

CREATE TABLE task_alerts (
    task        text NOT NULL REFERENCES task_labels (task),
    alert       text NOT NULL,
    threshold   integer NOT NULL,
    episode     bigint NOT NULL,
    state       text NOT NULL CHECK (state IN ('firing', 'resolved')),
    value       bigint NOT NULL,
    "limit"     bigint NOT NULL,
    summary     text NOT NULL,
    description text NOT NULL,
    as_of       timestamptz NOT NULL, -- of the ledger: who sees an older one may not judge otherwise
    starts_at   timestamptz NOT NULL,
    ends_at     timestamptz,
    reason      text NOT NULL,
    PRIMARY KEY (task, alert, threshold)
);

CREATE INDEX task_alerts_firing ON task_alerts (task) WHERE state = 'firing';
CREATE INDEX task_alerts_resolved ON task_alerts (ends_at) WHERE state = 'resolved';

-- Every transition, until the ledger and the webhook have it.
CREATE TABLE task_alert_outbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    uuid NOT NULL,
    at          timestamptz NOT NULL,
    to_ledger   boolean NOT NULL, -- still to be copied
    to_webhook  boolean NOT NULL, -- still to be told
    task        text NOT NULL,
    alert       text NOT NULL,
    threshold   integer NOT NULL,
    project     text NOT NULL,
    repo        text NOT NULL,
    kind        text NOT NULL,
    episode     bigint NOT NULL,
    state       text NOT NULL,
    value       bigint NOT NULL,
    "limit"     bigint NOT NULL,
    summary     text NOT NULL,
    description text NOT NULL,
    as_of       timestamptz NOT NULL,
    starts_at   timestamptz NOT NULL,
    ends_at     timestamptz,
    reason      text NOT NULL
);

CREATE INDEX task_alert_outbox_ledger ON task_alert_outbox (id) WHERE to_ledger;
CREATE INDEX task_alert_outbox_webhook ON task_alert_outbox (id) WHERE to_webhook;
