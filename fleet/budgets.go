package fleet

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Budgets says what may be spent in a calendar month, UTC, and what was. The
// metrics of the whole fleet have no project.
type Budgets struct{ gauges }

// NewBudgets returns a collector that is registered already; [Budgets.Run] keeps
// it up to date, every 30 s. A zero fleet is no budget; what the fleet spent is
// shown all the same. since returns the cost by project from a time on.
func NewBudgets(fleet usage.Nano, projects map[string]usage.Nano, since func(ctx context.Context, from time.Time) ([]clickhouse.ProjectCost, error),
	log *slog.Logger, reg prometheus.Registerer,
) *Budgets {
	budget := prometheus.NewDesc("tatara_ledger_budget_month_usd",
		"US dollars that a project, or without a project the fleet, may spend in a calendar month, UTC.", []string{"project"}, nil)
	spent := prometheus.NewDesc("tatara_ledger_budget_month_spent_usd",
		"US dollars that a project with a budget, or without a project the fleet, has spent since the first of the month, UTC.", []string{"project"}, nil)
	b := &Budgets{gauges{
		what: "budgets", every: 30 * time.Second, timeout: 20 * time.Second, descs: []*prometheus.Desc{budget, spent},
		read: func(ctx context.Context) ([]prometheus.Metric, error) {
			costs, err := since(ctx, month(time.Now()))
			if err != nil {
				return nil, err
			}
			of := map[string]usage.Nano{}
			var all usage.Nano
			for _, c := range costs {
				of[c.Project] += c.Cost
				all += c.Cost
			}
			out := []prometheus.Metric{gauge(spent, dollars(all), "")}
			if fleet > 0 {
				out = append(out, gauge(budget, dollars(fleet), ""))
			}
			for project, limit := range projects {
				out = append(out, gauge(budget, dollars(limit), project), gauge(spent, dollars(of[project]), project))
			}
			return out, nil
		},
	}}
	b.register(log, reg)
	return b
}

// Run keeps the metrics up to date until ctx ends. It returns no error.
func (b *Budgets) Run(ctx context.Context) error { return b.run(ctx) }

// month is the first of t's month.
func month(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
