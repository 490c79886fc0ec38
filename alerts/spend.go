package alerts

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ours selects the series of /metrics/fleet; wrappers push series of these names
// to others.
const ours = `source="tatara-ledger"`

// Recorded series. A day of the week has its own habits, so the typical value is
// the median of the same hour of the last seven days.
const (
	hitRatio   = "tatara_ledger:cache_hit:ratio1h"
	hitTypical = "tatara_ledger:cache_hit:typical"
)

func spend(o Options) Group {
	return Group{Name: "tatara-ledger-spend", Rules: []Rule{
		{Record: hitRatio, Expr: hitRatioExpr()},
		{Record: hitTypical, Expr: hitTypicalExpr()},
		{
			Alert: "SpendRunaway", Severity: Critical, Component: "spend",
			// Five minutes alone are one large turn, an hour alone is what ended
			// long ago.
			Expr: fmt.Sprintf(`%[1]s > %[3]s
and
%[2]s > %[3]s`, perHour("5m"), perHour("1h"), strconv.Itoa(o.RunawayUSDPerHour)),
			For:         2 * time.Minute,
			Summary:     `{{ $labels.kind }} of {{ $labels.project }} costs {{ printf "%.0f" $value }} $/h`,
			Description: `Over the last 5 minutes and over the last hour the kind {{ $labels.kind }} of project {{ $labels.project }} cost more than ` + strconv.Itoa(o.RunawayUSDPerHour) + ` $/h.`,
			Dashboard:   "tatara-ledger-spend", Query: `var-kind={{ $labels.kind | urlquery }}&var-project={{ $labels.project | urlquery }}`,
		},
		{
			Alert: "CacheHitCollapse", Severity: Warning, Component: "spend",
			Expr:        hitRatio + " < 0.6 * " + hitTypical,
			For:         15 * time.Minute,
			Summary:     `Cache hits of {{ $labels.kind }} fell to {{ $value | humanizePercentage }}`,
			Description: `The share of input of the kind {{ $labels.kind }} that the cache served in the last hour is under 60 % of what is typical of this hour. Input that the cache does not serve costs ten times as much.`,
			Dashboard:   "tatara-ledger-cache", Query: `var-kind={{ $labels.kind | urlquery }}`,
		},
		{
			Alert: "LedgerFleetStale", Severity: Warning, Component: "spend",
			Expr: `max(tatara_ledger_fleet_leader) == 0
or
max(tatara_ledger_fleet_lag_seconds) > 120`,
			For:         5 * time.Minute,
			Summary:     `The counters of the fleet stand still`,
			Description: `No replica exposes /metrics/fleet, or the one that does cannot read what was pushed. Alerts of spend and of cache hits see nothing new meanwhile; ceilings and totals are not affected.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "UnpricedModel", Severity: Warning, Component: "spend",
			Expr:        `sum(increase(tatara_ledger_writer_unpriced_tokens_total[15m])) > 0`,
			Summary:     `{{ $value | humanize }} tokens had no price`,
			Description: `A model in use is not in the price book, or lacks the price of a class of tokens. What it costs is in no dollar panel and counts against no ceiling in dollars; ceilings in tokens hold.`,
			Dashboard:   "tatara-ledger-spend",
		},
	}}
}

func perHour(window string) string {
	return fmt.Sprintf(`3600 * sum by (kind, project) (rate(ccw_turn_cost_usd_total{%s}[%s]))`, ours, window)
}

// hitRatioExpr leaves out hours of under a million tokens: too few say nothing.
func hitRatioExpr() string {
	return fmt.Sprintf(`sum by (kind) (increase(ccw_turn_tokens_total{%[1]s,type="cache_read"}[1h]))
/
(sum by (kind) (increase(ccw_turn_tokens_total{%[1]s,type=~"cache_read|input"}[1h])) > 1e6)`, ours)
}

// hitTypicalExpr wants three days: fewer have no middle.
func hitTypicalExpr() string {
	var days []string
	for day := 1; day <= 7; day++ {
		days = append(days, fmt.Sprintf(`label_replace(%s offset %dd, "day", "%d", "", "")`, hitRatio, day, day))
	}
	past := strings.Join(days, "\n  or ")
	return fmt.Sprintf(`quantile by (kind) (0.5,
  %[1]s
)
and
count by (kind) (
  %[1]s
) >= 3`, past)
}
