package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// warnPercent is from where on the service says warn.
const warnPercent = 80

// standing says in whole sentences what a task spent of which limits, the
// highest first, and when the next is reached.
func standing(t *wire.Task) string {
	limits := slices.SortedStableFunc(slices.Values(t.Ceiling.Limits), func(a, b wire.TaskLimit) int { return cmp.Compare(b.Percent, a.Percent) })
	near := slices.DeleteFunc(slices.Clone(limits), func(l wire.TaskLimit) bool { return l.Percent < warnPercent })
	if len(near) == 0 { // that of a service that warns earlier
		near = limits[:min(1, len(limits))]
	}
	var parts []string
	if !slices.ContainsFunc(near, func(l wire.TaskLimit) bool { return l.Limit == "task.usd" }) {
		parts = append(parts, spentOf(t)+" in all")
	}
	for _, l := range near {
		parts = append(parts, limitText(t, l))
	}
	text := "task " + t.Task + " has spent " + strings.Join(parts, ", ") + "."
	if t.UnpricedTokens > 0 {
		text += " " + thousands(t.UnpricedTokens) + " tokens have no price and are not in the dollars."
	}
	if at := t.LimitReachedAt; at != nil {
		text += " At $" + cents(t.CostPerHourUSD) + " an hour, the limit of the whole task is reached in " + roughly(at.Sub(t.AsOf)) + ", at " + stamp(*at) + " UTC."
	}
	return text
}

func spentOf(t *wire.Task) string {
	if t.CostUSD == nil {
		return "an unknown amount"
	}
	return marked(t, *t.CostUSD)
}

// marked writes dollars with the marks of report.
func marked(t *wire.Task, dollars string) string {
	text := "$" + cents(dollars)
	if t.Approximate {
		text = "~" + text
	}
	if t.Estimated {
		text = "?" + text
	}
	return text
}

// limitText is such as "$20.10 of $25.00 in the last hour (80 %)".
func limitText(t *wire.Task, l wire.TaskLimit) string {
	scope, unit, _ := strings.Cut(l.Limit, ".")
	text := whole(l.Value) + " of " + whole(l.Of) + " " + strings.ReplaceAll(unit, "_", " ")
	if unit == "usd" {
		text = marked(t, l.Value) + " of $" + cents(l.Of)
	}
	switch scope {
	case "hour":
		text += " in the last hour"
	case "session":
		text += " in one session"
	}
	return text + " (" + strconv.FormatUint(l.Percent, 10) + " %)"
}

func whole(count string) string {
	n, err := strconv.ParseUint(count, 10, 64)
	if err != nil {
		return count
	}
	return thousands(n)
}

// roughly is a duration to the minute.
func roughly(d time.Duration) string {
	if d < time.Minute {
		return "less than a minute"
	}
	minutes := int64(d.Round(time.Minute) / time.Minute)
	if minutes < 60 {
		return strconv.FormatInt(minutes, 10) + " min"
	}
	if minutes < 48*60 {
		return strconv.FormatInt(minutes/60, 10) + " h " + strconv.FormatInt(minutes%60, 10) + " min"
	}
	return strconv.FormatInt(minutes/60/24, 10) + " days"
}
