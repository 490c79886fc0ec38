package evaluate

import (
	"fmt"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/alerts"
	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/store"
)

// describe writes the texts of a crossing, for whoever is woken by it.
func describe(s *Standing, a *store.Alert) {
	var d strings.Builder
	if a.Alert == alerts.TaskUnpriced {
		a.Summary = fmt.Sprintf("Task %s used %d tokens that have no price", s.Name, a.Value)
		d.WriteString("Its ceiling in dollars does not see them; its ceilings in tokens do. ")
	} else {
		m := measureOf(s, a)
		a.Summary = fmt.Sprintf("Task %s reached %d %% of its %s ceiling: %s of %s", s.Name, a.Threshold, what(m.Dimension),
			m.Dimension.Format(m.Value), m.Dimension.Format(m.Limit.Value))
		fmt.Fprintf(&d, "The limit comes from: %s. ", m.Limit.Source)
	}
	fmt.Fprintf(&d, "Cost %s, %s per hour; tokens %d, of them output %d; runs %d.",
		ceiling.TaskCost.Format(value(&s.Task, ceiling.TaskCost)), ceiling.TaskCost.Format(uint64(s.PerHour)),
		s.Total.Tokens, s.Total.OutputTokens, s.Runs)
	if s.Model != "" {
		top := s.Models[0]
		fmt.Fprintf(&d, " Top model: %s (%s).", s.Model, ceiling.TaskCost.Format(uint64(max(top.Cost, 0))))
	}
	if t := &s.Turns; !t.Last.IsZero() {
		fmt.Fprintf(&d, " Last turn: %s at %s.", t.LastResult, t.Last.Format(time.RFC3339))
	}
	a.Description = d.String()
}

func measureOf(s *Standing, a *store.Alert) Measure {
	for m := range s.Measures() {
		if m.Dimension.Alert() == a.Alert {
			return m
		}
	}
	return Measure{}
}

// what names a dimension for people.
func what(d ceiling.Dimension) string {
	name := map[ceiling.Dimension]string{
		ceiling.TaskCost: "cost", ceiling.TaskTokens: "token", ceiling.TaskOutputTokens: "output token", ceiling.TaskRuns: "run",
		ceiling.HourCost: "hourly cost", ceiling.HourTokens: "hourly token", ceiling.HourOutputTokens: "hourly output token",
		ceiling.HourRuns: "hourly run", ceiling.SessionSubagents: "subagent",
	}[d]
	return name
}
