package alerts

import "time"

func delivery() Group {
	return Group{Name: "tatara-ledger-delivery", Rules: []Rule{
		{
			Alert: "LedgerAlertDeliveryFailing", Severity: Critical, Component: "alerts",
			Expr:        rising("receiver", `tatara_ledger_alerts_delivery_failures_total`, "5m"),
			For:         2 * time.Minute,
			Summary:     `Alerts do not reach {{ $labels.receiver }}`,
			Description: `tatara-ledger raises alerts that {{ $labels.receiver }} does not take. A task over its ceiling may page nobody.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerEvaluatorBlind", Severity: Critical, Component: "alerts",
			// The newest of all replicas: any one that sees is enough.
			Expr:        `time() - max(tatara_ledger_alerts_evaluated_timestamp_seconds) > 60`,
			For:         time.Minute,
			Summary:     `No ceiling was evaluated for {{ $value | humanizeDuration }}`,
			Description: `No replica could read the totals of tasks, or keep what it found. What is firing stays; a task that crosses its ceiling now raises nothing.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerAlertsStuck", Severity: Critical, Component: "alerts",
			// For a moment it is what another replica changed first.
			Expr:        `min by (instance) (min_over_time(tatara_ledger_alerts_pending_changes[5m])) > 0`,
			For:         time.Minute,
			Summary:     `{{ $value | humanize }} alerts of ceilings do not change as they should`,
			Description: `For minutes {{ $labels.instance }} has wanted alerts to fire or resolve, and they did not. A task over its ceiling may page nobody.`,
			Dashboard:   "tatara-ledger-health",
		},
	}}
}
