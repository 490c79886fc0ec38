-- Who exposes the fleet's counters: one row. A write of a holder that was
-- replaced does not find its epoch.
CREATE TABLE fleet_holder (
    single    boolean PRIMARY KEY DEFAULT true CHECK (single),
    epoch     bigint NOT NULL,
    -- The ledger's clock, in ns, of which all that was spent before is counted.
    -- Null: the ledger was never read to its end.
    watermark bigint
);
INSERT INTO fleet_holder (epoch) VALUES (0);

-- The counters. They never fall.
CREATE TABLE fleet_series (
    amount  smallint NOT NULL, -- of store.FleetAmount; in nano-dollars for the cost
    project text NOT NULL,
    repo    text NOT NULL,
    kind    text NOT NULL,
    model   text NOT NULL,
    value   bigint NOT NULL,
    shown   bigint, -- to the last scrape; null: to none
    PRIMARY KEY (amount, project, repo, kind, model)
);

-- What was counted of each run: its highest totals, and the amounts by label as
-- the ledger had them last.
CREATE TABLE fleet_runs (
    run         text PRIMARY KEY,
    high        bigint[] NOT NULL, -- by store.FleetAmount
    parts       jsonb NOT NULL,
    last_charge timestamptz NOT NULL
);
CREATE INDEX fleet_runs_last_charge ON fleet_runs (last_charge);
