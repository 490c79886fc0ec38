package alerts

import "time"

// The gauges of a project have its label, that of the whole fleet has none.
// Every replica shows the same ones.
const (
	budgetOf = `max by (project) (tatara_ledger_budget_month_usd)`
	spentOf  = `max by (project) (tatara_ledger_budget_month_spent_usd)`
	// It falls to 0 with the month, and a little when spend is corrected; both
	// increase() takes for a restart. The first day of a month has no pace yet.
	perDay = `clamp_min(` + spentOf + ` - max by (project) (tatara_ledger_budget_month_spent_usd offset 1d), 0)`
	// Until the month ends, UTC.
	daysLeft = `scalar(days_in_month() - day_of_month() + 1 - (hour() * 60 + minute()) / 1440)`

	whose = `{{ if $labels.project }}project {{ $labels.project }}{{ else }}the fleet{{ end }}`
)

func budget() Group {
	return Group{Name: "tatara-ledger-budget", Rules: []Rule{
		{
			Alert: "BudgetForecast", Severity: Warning, Component: "budget",
			Expr: `(` + spentOf + ` + ` + perDay + ` * ` + daysLeft + `) / ` + budgetOf + ` > 1
unless
` + spentOf + ` >= ` + budgetOf,
			For:         time.Hour,
			Summary:     `The month will cost {{ $value | humanizePercentage }} of the budget of ` + whose,
			Description: `At the pace of the last day, the spend of ` + whose + ` will be over the month's budget before the month ends.`,
			Dashboard:   "tatara-ledger-spend", Query: `var-project={{ $labels.project | urlquery }}`,
		},
		{
			Alert: "BudgetSpent", Severity: Critical, Component: "budget",
			Expr:        spentOf + ` / ` + budgetOf + ` >= 1`,
			For:         time.Minute,
			Summary:     `{{ $value | humanizePercentage }} of the month's budget of ` + whose + ` is spent`,
			Description: `The spend of ` + whose + ` since the first of the month, UTC, has reached its budget. Nothing stops by itself.`,
			Dashboard:   "tatara-ledger-spend", Query: `var-project={{ $labels.project | urlquery }}`,
		},
	}}
}
