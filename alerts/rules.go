// Package alerts holds the Prometheus rules over the service's own metrics as Go
// values, the runbook of every alert, and an example of Alertmanager's routing.
//
// What is rendered is deterministic: the same [Options] give the same bytes. No
// rule uses absent() on a series of a task, a source or a label, since those come
// and go; liveness is judged by when a source was last heard.
package alerts

import (
	"embed"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// TaskDashboard is the UID of the dashboard of one task, which its alerts link to.
const TaskDashboard = "tatara-ledger-task"

// System is the label system of every alert of ours.
const System = "tatara"

// Severities of alerts: critical pages, warning waits for a working day.
const (
	Critical = "critical"
	Warning  = "warning"
)

//go:embed runbooks/*.md
var runbooks embed.FS

// Runbook is the page of one alert, and whether there is one.
func Runbook(alert string) (string, bool) {
	page, err := runbooks.ReadFile("runbooks/" + alert + ".md")
	return string(page), err == nil
}

// Options are what differs between installations.
type Options struct {
	// Runbooks is the address of the folder of runbooks: NAME.md is appended.
	Runbooks string
	// Dashboards is Grafana's address: /d/UID is appended. Empty: alerts link to no
	// dashboard.
	Dashboards string
	// RunawayUSDPerHour is what one kind of work of one project may cost per hour,
	// over five minutes and over an hour, in whole dollars. Too low pages at every
	// busy hour; too high leaves a runaway to the monthly budget.
	RunawayUSDPerHour int
	// Thresholds are the percents of ceilings that become alerts, rising; the
	// routing makes each inhibit the lower ones.
	Thresholds []int
}

// DefaultOptions are those of what is shipped.
func DefaultOptions() Options {
	return Options{
		Runbooks:   "https://github.com/szymonrychu/tatara-ledger/blob/main/alerts/runbooks",
		Dashboards: "https://grafana.example.com",
		// A pod that does nothing but think costs some 10 $ an hour.
		RunawayUSDPerHour: 200,
		Thresholds:        []int{50, 80, 100},
	}
}

// Validate refuses options that would render rules that cannot work.
func (o Options) Validate() error {
	var errs []error
	for name, address := range map[string]string{"runbooks": o.Runbooks, "dashboards": o.Dashboards} {
		if name == "dashboards" && address == "" {
			continue
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(address, "{}\n") {
			errs = append(errs, fmt.Errorf("%s %q is not an http or https address", name, address))
		}
	}
	if o.RunawayUSDPerHour <= 0 {
		errs = append(errs, fmt.Errorf("runaway of %d dollars an hour is not positive", o.RunawayUSDPerHour))
	}
	last := 0
	for _, t := range o.Thresholds {
		if t <= last {
			errs = append(errs, fmt.Errorf("thresholds %v do not rise from 1", o.Thresholds))
			break
		}
		last = t
	}
	return errors.Join(errs...)
}

// RunbookURL is where the page of an alert is.
func (o Options) RunbookURL(alert string) string {
	return strings.TrimSuffix(o.Runbooks, "/") + "/" + alert + ".md"
}

// DashboardURL is a dashboard's address, "" where there is none; query is what
// follows the "?".
func (o Options) DashboardURL(uid, query string) string {
	if o.Dashboards == "" {
		return ""
	}
	address := strings.TrimSuffix(o.Dashboards, "/") + "/d/" + uid
	if query != "" {
		address += "?" + query
	}
	return address
}

// Group is rules that are evaluated together, in order.
type Group struct {
	Name string
	// Every is the time between evaluations; zero is Prometheus' own.
	Every time.Duration
	Rules []Rule
}

// Rule is one alert, or one recorded series.
type Rule struct {
	// Record is the series that the expression is recorded as; the fields below
	// Expr are then empty.
	Record string
	// Alert is the alertname.
	Alert string
	Expr  string
	// For is how long the expression must hold before the alert fires.
	For time.Duration
	// Severity and Component are labels.
	Severity, Component string
	// Summary is one line; Description says what it means. Both are templates.
	Summary, Description string
	// Dashboard is the UID of the dashboard to look at, Query its variables.
	Dashboard, Query string
}

// Groups are all rules, in a fixed order.
func Groups(o Options) []Group {
	return []Group{spend(o), budget(), intake(), stores(), delivery(), agents()}
}

// Alerts are the names of all alerts of the rules, sorted.
func Alerts() []string {
	var all []string
	for _, g := range Groups(DefaultOptions()) {
		for _, r := range g.Rules {
			if r.Alert != "" {
				all = append(all, r.Alert)
			}
		}
	}
	slices.Sort(all)
	return all
}

// rising is what a counter that begins with its first event, not at zero, grew
// by: increase() alone misses the event with which it is born (prometheus#3886).
func rising(by, series, window string) string {
	return fmt.Sprintf(`sum by (%[1]s) (
  (%[2]s unless %[2]s offset %[3]s)
  or
  increase(%[2]s[%[3]s])
) > 0`, by, series, window)
}
