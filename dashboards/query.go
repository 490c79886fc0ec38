package dashboards

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Query is one SELECT over the published views, with the macros and variables of
// Grafana's ClickHouse datasource. Only those macros are used that mean the same
// in all of its versions (4.14 and later).
type Query struct {
	// SQL is complete but for macros and variables.
	SQL string
	// err is what was wrong with the text that SQL was made of.
	err error
}

// placeholder is {…} in the text of a query, but for ${…}, Grafana's own.
var placeholder = regexp.MustCompile(`\$?\{[a-z0-9_.:]+\}`)

// query makes a query of a text in which these stand for themselves:
//
//	{cost_usd}      a column of the view
//	{alerts.limit}  a column of another view
//	{runs.}         another view; {.} is the view itself
//	{where}         the range and the variables, for the columns that the view has
//	{label:repo}    a column for people: what is empty shows as (none)
//	{spend}         spend of the range by the variables, for sums
//	{series}        the same for points in time
//	{time}          of {series} and views: the time column
//
// A column or view that does not exist is an error of the query. An alias must not
// be the name of a column that a condition beside it means: ClickHouse would take
// the alias.
func query(view, text string) Query {
	q := Query{}
	q.SQL = placeholder.ReplaceAllStringFunc(strings.TrimSpace(text), func(s string) string {
		if strings.HasPrefix(s, "$") {
			return s
		}
		out, err := expand(view, s[1:len(s)-1])
		q.err = errors.Join(q.err, err)
		return out
	})
	return q
}

func expand(view, name string) (string, error) {
	switch name {
	case "where":
		return where(view), nil
	case "spend":
		return spend("$__toTime - $__fromTime >= 86400"), nil
	case "series":
		return spend("$__interval_s >= 3600"), nil
	}
	if column, ok := strings.CutPrefix(name, "label:"); ok {
		name, err := columnOf(view, column)
		return label(name), err
	}
	if of, column, ok := strings.Cut(name, "."); ok {
		if of == "" {
			of = view
		}
		if column != "" {
			return columnOf(of, column)
		}
		if clickhouse.Columns(of) == nil {
			return of, fmt.Errorf("no published view is called %q", of)
		}
		return of, nil
	}
	return columnOf(view, name)
}

func columnOf(view, column string) (string, error) {
	if !slices.Contains(clickhouse.Columns(view), column) {
		return column, fmt.Errorf("the view %q has no column %q", view, column)
	}
	return column, nil
}

// None is what the value of an empty label shows as. A label that really is
// called so cannot be told from it.
const None = "(none)"

func label(column string) string {
	return "if(" + column + " = '', '" + None + "', toString(" + column + "))"
}

// filters are the variables that select labels, in their order.
func filters() []string { return []string{"project", "repo", "kind", "model"} }

// selected is the condition of the variables on the columns that a view has.
// Grafana expands $__conditionalAll in the browser: with All it is 1=1.
func selected(view string) string {
	conditions := []string{"1"}
	for _, f := range filters() {
		if slices.Contains(clickhouse.Columns(view), f) {
			conditions = append(conditions, "$__conditionalAll("+label(f)+" IN (${"+f+":singlequote}), $"+f+")")
		}
	}
	return strings.Join(conditions, " AND ")
}

func where(view string) string { return "$__timeFilter(time) AND " + selected(view) }

// spend is the selected spend within the range. Where coarse holds, whole hours
// come from the hourly view and the edges from the buckets: the sum is the same,
// and a long range reads a twelfth of the rows or less. The condition is constant
// by the time that the engine sees it, so that the other side is not read.
func spend(coarse string) string {
	hourly := clickhouse.Columns(clickhouse.ViewSpendHourly)
	columns := strings.Join(hourly, ", ")
	const first, last = "toStartOfHour($__fromTime + INTERVAL 3599 SECOND)", "toStartOfHour($__toTime)"
	return "(SELECT " + columns + " FROM " + clickhouse.ViewSpendHourly +
		" WHERE " + coarse + " AND time >= " + first + " AND time < " + last + " AND " + selected(clickhouse.ViewSpendHourly) +
		" UNION ALL SELECT " + columns + " FROM " + clickhouse.ViewSpend +
		" WHERE " + where(clickhouse.ViewSpend) + " AND (NOT (" + coarse + ") OR time < " + first + " OR time >= " + last + "))"
}

// top is a label of which only the values with the most spend are told apart; the
// others are one series, so that a panel stays readable whatever the number of
// repositories.
func top(column string, n int) string {
	return fmt.Sprintf("if(%s IN (SELECT %s FROM {spend} GROUP BY 1 ORDER BY sum({cost_usd}) DESC NULLS LAST LIMIT %d), {label:%s}, 'all others')",
		"{label:"+column+"}", "{label:"+column+"}", n, column)
}
