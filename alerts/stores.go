package alerts

import "time"

func stores() Group {
	return Group{Name: "tatara-ledger-stores", Rules: []Rule{
		{
			Alert: "LedgerAbsent", Severity: Critical, Component: "service",
			// A series that every replica always has, unlike those of tasks.
			Expr:        `absent(tatara_ledger_journal_capacity_bytes)`,
			For:         5 * time.Minute,
			Summary:     `No replica of tatara-ledger is scraped`,
			Description: `Prometheus sees no replica of tatara-ledger. No other alert of it can fire, and no ceiling is watched.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerClickHouseAway", Severity: Critical, Component: "clickhouse",
			Expr:        away("clickhouse"),
			For:         2 * time.Minute,
			Summary:     `ClickHouse is away from {{ $labels.instance }}`,
			Description: `The readiness check {{ $labels.check }} of {{ $labels.instance }} fails. Facts wait in the journal and are safe until it is full; nothing can be read, and ceilings are not evaluated.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerPostgresAway", Severity: Critical, Component: "postgres",
			Expr:        away("postgres"),
			For:         2 * time.Minute,
			Summary:     `Postgres is away from {{ $labels.instance }}`,
			Description: `The readiness check {{ $labels.check }} of {{ $labels.instance }} fails. Handoffs and rooms answer 503; telemetry is taken as before.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerRollupFailing", Severity: Warning, Component: "clickhouse",
			Expr:        `sum by (instance) (increase(tatara_ledger_closer_errors_total[10m])) > 3`,
			For:         10 * time.Minute,
			Summary:     `The rollup is not closed`,
			Description: `The closer of {{ $labels.instance }} fails. Every total stays exact, but is read from the charges: queries get slower with each bucket.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerOutboxLagging", Severity: Warning, Component: "outbox",
			Expr:        `max by (outbox) (tatara_ledger_outbox_lag_seconds) > 600`,
			For:         5 * time.Minute,
			Summary:     `Events of the outbox {{ $labels.outbox }} are {{ $value | humanizeDuration }} late`,
			Description: `An outbox is not drained: chat and alerts into ClickHouse, webhook to the webhook. Nothing is lost and all else works; what is told of it is late.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerSweeperFailing", Severity: Warning, Component: "postgres",
			// A sweep every 30 s: two of three that fail.
			Expr:        `sum by (instance) (increase(tatara_ledger_sweeper_failures_total[10m])) > 13`,
			For:         10 * time.Minute,
			Summary:     `Sweeps of Postgres fail on {{ $labels.instance }}`,
			Description: `Rooms outlive their time and rows that are kept no longer pile up.`,
			Dashboard:   "tatara-ledger-health",
		},
	}}
}

// away is the readiness checks of a store that fail.
func away(store string) string {
	return `min by (instance, check) (tatara_ledger_ready{check=~"` + store + `.*"}) == 0`
}
