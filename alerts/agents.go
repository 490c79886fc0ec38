package alerts

import "time"

func agents() Group {
	return Group{Name: "tatara-ledger-agents", Rules: []Rule{
		{
			Alert: "HandoffsStale", Severity: Warning, Component: "handoffs",
			// Ten reads: one curious look is no agent that goes on with work.
			Expr: `sum(increase(chat_handoffs_total{op="read"}[6h])) > 10
unless
sum(increase(chat_handoffs_total{op="write"}[6h])) > 0`,
			For:         30 * time.Minute,
			Summary:     `Handoffs are read, and none was written for 6 hours`,
			Description: `{{ $value | humanize }} reads of handoffs in 6 hours and not one write: agents go on from notes that nobody renews.`,
			Dashboard:   "tatara-ledger-handoffs",
		},
		{
			Alert: "LedgerAuthUnavailable", Severity: Critical, Component: "auth",
			Expr:        `sum by (instance) (increase(tatara_ledger_auth_requests_total{result="unavailable"}[5m])) > 0`,
			For:         2 * time.Minute,
			Summary:     `Tokens cannot be verified on {{ $labels.instance }}`,
			Description: `The identity provider's keys cannot be fetched, so {{ $labels.instance }} answers 503 to tokens that it does not know yet.`,
			Dashboard:   "tatara-ledger-health",
		},
	}}
}
