TABLE alert_configurations
    hash text NOT NULL
    started_at timestamp with time zone NOT NULL
    seen_at timestamp with time zone NOT NULL
    CONSTRAINT alert_configurations_pkey PRIMARY KEY (hash)
    CREATE UNIQUE INDEX alert_configurations_pkey ON public.alert_configurations USING btree (hash)
TABLE chat_handoff_deletions
    delete_id uuid NOT NULL
    handoff_key text NOT NULL
    revision bigint NOT NULL
    deleted_at timestamp with time zone NOT NULL
    CONSTRAINT chat_handoff_deletions_pkey PRIMARY KEY (delete_id)
    CREATE INDEX chat_handoff_deletions_deleted ON public.chat_handoff_deletions USING btree (deleted_at)
    CREATE UNIQUE INDEX chat_handoff_deletions_pkey ON public.chat_handoff_deletions USING btree (delete_id)
TABLE chat_handoff_revisions
    handoff_key text NOT NULL
    revision bigint NOT NULL
    write_id uuid NOT NULL
    handoff_id uuid NOT NULL
    project text NOT NULL
    repo text NOT NULL
    kind text NOT NULL
    body text NOT NULL
    created_by text NOT NULL
    created_at timestamp with time zone NOT NULL
    written_by text NOT NULL
    written_at timestamp with time zone NOT NULL
    request_id text NOT NULL
    restored bigint NOT NULL
    CONSTRAINT chat_handoff_revisions_pkey PRIMARY KEY (handoff_key, revision)
    CONSTRAINT chat_handoff_revisions_write_id_key UNIQUE (write_id)
    CREATE UNIQUE INDEX chat_handoff_revisions_pkey ON public.chat_handoff_revisions USING btree (handoff_key, revision)
    CREATE UNIQUE INDEX chat_handoff_revisions_write_id_key ON public.chat_handoff_revisions USING btree (write_id)
TABLE chat_handoffs
    id uuid NOT NULL
    handoff_key text NOT NULL
    project text NOT NULL
    repo text NOT NULL
    kind text NOT NULL
    created_by text NOT NULL
    updated_by text NOT NULL
    body text NOT NULL
    revision bigint NOT NULL
    created_at timestamp with time zone NOT NULL
    updated_at timestamp with time zone NOT NULL
    words tsvector DEFAULT to_tsvector('english'::regconfig, body)
    CONSTRAINT chat_handoffs_handoff_key_key UNIQUE (handoff_key)
    CONSTRAINT chat_handoffs_pkey PRIMARY KEY (id)
    CREATE INDEX chat_handoffs_project ON public.chat_handoffs USING btree (project, updated_at DESC, id DESC)
    CREATE INDEX chat_handoffs_project_repo ON public.chat_handoffs USING btree (project, repo, updated_at DESC, id DESC)
    CREATE INDEX chat_handoffs_updated ON public.chat_handoffs USING btree (updated_at DESC, id DESC)
    CREATE INDEX chat_handoffs_words ON public.chat_handoffs USING gin (words)
    CREATE UNIQUE INDEX chat_handoffs_handoff_key_key ON public.chat_handoffs USING btree (handoff_key)
    CREATE UNIQUE INDEX chat_handoffs_pkey ON public.chat_handoffs USING btree (id)
TABLE chat_idempotency
    subject text NOT NULL
    key text NOT NULL
    operation text NOT NULL
    hash bytea NOT NULL
    answer jsonb NOT NULL
    created_at timestamp with time zone NOT NULL
    CONSTRAINT chat_idempotency_pkey PRIMARY KEY (subject, operation, key)
    CREATE INDEX chat_idempotency_created ON public.chat_idempotency USING btree (created_at)
    CREATE UNIQUE INDEX chat_idempotency_pkey ON public.chat_idempotency USING btree (subject, operation, key)
SEQUENCE chat_message_id
TABLE chat_messages
    room_id uuid NOT NULL
    id bigint NOT NULL
    send_id uuid NOT NULL
    author_id uuid
    author_name text NOT NULL
    target_id uuid
    kind text NOT NULL
    body text NOT NULL
    created_at timestamp with time zone NOT NULL
    CONSTRAINT chat_messages_pkey PRIMARY KEY (room_id, id)
    CONSTRAINT chat_messages_room_id_fkey FOREIGN KEY (room_id) REFERENCES chat_rooms(id) ON DELETE CASCADE
    CONSTRAINT chat_messages_send_id_key UNIQUE (send_id)
    CREATE UNIQUE INDEX chat_messages_pkey ON public.chat_messages USING btree (room_id, id)
    CREATE UNIQUE INDEX chat_messages_send_id_key ON public.chat_messages USING btree (send_id)
TABLE chat_outbox
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY
    event_id uuid NOT NULL
    at timestamp with time zone NOT NULL
    action text NOT NULL
    actor text NOT NULL
    request_id text NOT NULL
    project text NOT NULL DEFAULT ''::text
    repo text NOT NULL DEFAULT ''::text
    kind text NOT NULL DEFAULT ''::text
    handoff_key text NOT NULL DEFAULT ''::text
    revision bigint NOT NULL DEFAULT 0
    age_ms bigint NOT NULL DEFAULT 0
    room_id uuid
    participant_id uuid
    message_id bigint NOT NULL DEFAULT 0
    direct boolean NOT NULL DEFAULT false
    bytes bigint NOT NULL DEFAULT 0
    CONSTRAINT chat_outbox_pkey PRIMARY KEY (id)
    CREATE UNIQUE INDEX chat_outbox_pkey ON public.chat_outbox USING btree (id)
SEQUENCE chat_outbox_id_seq
TABLE chat_participants WITH {fillfactor=70}
    id uuid NOT NULL
    room_id uuid NOT NULL
    name text NOT NULL
    role text NOT NULL
    joined_at timestamp with time zone NOT NULL
    left_at timestamp with time zone
    last_seen_id bigint NOT NULL
    poll_ids uuid[] NOT NULL DEFAULT '{}'::uuid[]
    CONSTRAINT chat_participants_pkey PRIMARY KEY (id)
    CONSTRAINT chat_participants_room_id_fkey FOREIGN KEY (room_id) REFERENCES chat_rooms(id) ON DELETE CASCADE
    CREATE INDEX chat_participants_room ON public.chat_participants USING btree (room_id, joined_at, id)
    CREATE UNIQUE INDEX chat_participants_pkey ON public.chat_participants USING btree (id)
TABLE chat_rooms WITH {fillfactor=50}
    id uuid NOT NULL
    name text NOT NULL
    created_by text NOT NULL
    status text NOT NULL
    created_at timestamp with time zone NOT NULL
    archived_at timestamp with time zone
    last_message_id bigint NOT NULL DEFAULT 0
    last_message_at timestamp with time zone
    CONSTRAINT chat_rooms_pkey PRIMARY KEY (id)
    CONSTRAINT chat_rooms_status_check CHECK ((status = ANY (ARRAY['active'::text, 'archived'::text])))
    CREATE INDEX chat_rooms_created ON public.chat_rooms USING btree (created_at DESC, id DESC)
    CREATE INDEX chat_rooms_status ON public.chat_rooms USING btree (status, created_at DESC, id DESC)
    CREATE UNIQUE INDEX chat_rooms_pkey ON public.chat_rooms USING btree (id)
TABLE fleet_holder
    single boolean NOT NULL DEFAULT true
    epoch bigint NOT NULL
    watermark bigint
    CONSTRAINT fleet_holder_pkey PRIMARY KEY (single)
    CONSTRAINT fleet_holder_single_check CHECK (single)
    CREATE UNIQUE INDEX fleet_holder_pkey ON public.fleet_holder USING btree (single)
TABLE fleet_runs
    run text NOT NULL
    high bigint[] NOT NULL
    parts jsonb NOT NULL
    last_charge timestamp with time zone NOT NULL
    CONSTRAINT fleet_runs_pkey PRIMARY KEY (run)
    CREATE INDEX fleet_runs_last_charge ON public.fleet_runs USING btree (last_charge)
    CREATE UNIQUE INDEX fleet_runs_pkey ON public.fleet_runs USING btree (run)
TABLE fleet_series
    amount smallint NOT NULL
    project text NOT NULL
    repo text NOT NULL
    kind text NOT NULL
    model text NOT NULL
    value bigint NOT NULL
    shown bigint
    CONSTRAINT fleet_series_pkey PRIMARY KEY (amount, project, repo, kind, model)
    CREATE UNIQUE INDEX fleet_series_pkey ON public.fleet_series USING btree (amount, project, repo, kind, model)
TABLE task_alert_outbox
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY
    event_id uuid NOT NULL
    at timestamp with time zone NOT NULL
    to_ledger boolean NOT NULL
    to_webhook boolean NOT NULL
    task text NOT NULL
    alert text NOT NULL
    threshold integer NOT NULL
    project text NOT NULL
    repo text NOT NULL
    kind text NOT NULL
    episode bigint NOT NULL
    state text NOT NULL
    value bigint NOT NULL
    limit bigint NOT NULL
    summary text NOT NULL
    description text NOT NULL
    as_of timestamp with time zone NOT NULL
    starts_at timestamp with time zone NOT NULL
    ends_at timestamp with time zone
    reason text NOT NULL
    CONSTRAINT task_alert_outbox_pkey PRIMARY KEY (id)
    CREATE INDEX task_alert_outbox_ledger ON public.task_alert_outbox USING btree (id) WHERE to_ledger
    CREATE INDEX task_alert_outbox_webhook ON public.task_alert_outbox USING btree (id) WHERE to_webhook
    CREATE UNIQUE INDEX task_alert_outbox_pkey ON public.task_alert_outbox USING btree (id)
SEQUENCE task_alert_outbox_id_seq
TABLE task_alerts
    task text NOT NULL
    alert text NOT NULL
    threshold integer NOT NULL
    episode bigint NOT NULL
    state text NOT NULL
    value bigint NOT NULL
    limit bigint NOT NULL
    summary text NOT NULL
    description text NOT NULL
    as_of timestamp with time zone NOT NULL
    starts_at timestamp with time zone NOT NULL
    ends_at timestamp with time zone
    reason text NOT NULL
    CONSTRAINT task_alerts_pkey PRIMARY KEY (task, alert, threshold)
    CONSTRAINT task_alerts_state_check CHECK ((state = ANY (ARRAY['firing'::text, 'resolved'::text])))
    CONSTRAINT task_alerts_task_fkey FOREIGN KEY (task) REFERENCES task_labels(task)
    CREATE INDEX task_alerts_firing ON public.task_alerts USING btree (task) WHERE (state = 'firing'::text)
    CREATE INDEX task_alerts_resolved ON public.task_alerts USING btree (ends_at) WHERE (state = 'resolved'::text)
    CREATE UNIQUE INDEX task_alerts_pkey ON public.task_alerts USING btree (task, alert, threshold)
TABLE task_ceiling_changes
    change_id uuid NOT NULL
    task text NOT NULL
    cost_nano bigint
    tokens bigint
    output_tokens bigint
    exempt boolean NOT NULL
    set_by text NOT NULL
    set_at timestamp with time zone NOT NULL
    request_id text NOT NULL
    CONSTRAINT task_ceiling_changes_pkey PRIMARY KEY (change_id)
    CREATE INDEX task_ceiling_changes_task ON public.task_ceiling_changes USING btree (task, set_at)
    CREATE UNIQUE INDEX task_ceiling_changes_pkey ON public.task_ceiling_changes USING btree (change_id)
TABLE task_ceilings
    task text NOT NULL
    cost_nano bigint
    tokens bigint
    output_tokens bigint
    exempt boolean NOT NULL
    set_by text NOT NULL
    set_at timestamp with time zone NOT NULL
    request_id text NOT NULL
    CONSTRAINT task_ceilings_cost_nano_check CHECK ((cost_nano > 0))
    CONSTRAINT task_ceilings_output_tokens_check CHECK ((output_tokens > 0))
    CONSTRAINT task_ceilings_pkey PRIMARY KEY (task)
    CONSTRAINT task_ceilings_tokens_check CHECK ((tokens > 0))
    CREATE INDEX task_ceilings_set ON public.task_ceilings USING btree (set_at)
    CREATE UNIQUE INDEX task_ceilings_pkey ON public.task_ceilings USING btree (task)
TABLE task_ends
    task text NOT NULL
    ended_at timestamp with time zone NOT NULL
    ended_by text NOT NULL
    request_id text NOT NULL
    CONSTRAINT task_ends_pkey PRIMARY KEY (task)
    CREATE INDEX task_ends_ended ON public.task_ends USING btree (ended_at)
    CREATE UNIQUE INDEX task_ends_pkey ON public.task_ends USING btree (task)
TABLE task_labels
    task text NOT NULL
    project text NOT NULL
    repo text NOT NULL
    kind text NOT NULL
    frozen_at timestamp with time zone NOT NULL
    CONSTRAINT task_labels_pkey PRIMARY KEY (task)
    CREATE UNIQUE INDEX task_labels_pkey ON public.task_labels USING btree (task)
