package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/alerts/deliver"
	"github.com/szymonrychu/tatara-ledger/alerts/evaluate"
	"github.com/szymonrychu/tatara-ledger/api"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/fleet"
	"github.com/szymonrychu/tatara-ledger/outbox"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

// alertingFlags configure what watches tasks and raises alerts.
type alertingFlags struct {
	ceilings string
	tasks    tasks.Config
	evaluate evaluate.Config
	deliver  deliver.Config
	fleet    fleet.Config
}

func defaultAlerting() alertingFlags {
	return alertingFlags{
		tasks: tasks.DefaultConfig(), evaluate: evaluate.DefaultConfig(),
		deliver: deliver.DefaultConfig(), fleet: fleet.DefaultConfig(),
	}
}

func (c *alertingFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.ceilings, "ceilings", "", "`file` of ceilings and budgets laid over the shipped ones")
	links := &c.evaluate.Links
	f.StringVar(&links.Runbooks, "runbooks", links.Runbooks, "`URL` of the folder of runbooks, for alerts")
	f.StringVar(&links.Dashboards, "dashboards", links.Dashboards, "`URL` of Grafana, which alerts then link to")
	c.deliver.Flags(f)
	c.fleet.Flags(f)
}

func (c *alertingFlags) validate() error {
	return errors.Join(c.tasks.Validate(), c.evaluate.Links.Validate(), c.deliver.Validate(), c.fleet.Validate())
}

// alerting is what watches tasks and raises alerts, and the series that the
// shipped rules need.
type alerting struct {
	watcher   *tasks.Watcher
	evaluator *evaluate.Evaluator
	sender    *deliver.Sender
	toLedger  *outbox.Drainer[store.AlertEvent]
	toWebhook *outbox.Drainer[store.AlertEvent] // nil: there is none
	fleet     *fleet.Exporter
	sources   *fleet.Sources
	budgets   *fleet.Budgets
	ready     *fleet.Readiness
}

// newAlerting builds it over the stores, and starts nothing.
func (s *service) newAlerting(book *pricing.Book, checks []api.Check, log *slog.Logger, reg prometheus.Registerer) (*alerting, error) {
	cfg := s.cfg.alerting
	limits, err := ceiling.LoadFile(cfg.ceilings)
	if err != nil {
		return nil, err
	}
	a := &alerting{
		watcher: tasks.NewWatcher(cfg.tasks, s.ledger, book.Canonical, log, reg),
		fleet:   fleet.NewExporter(cfg.fleet, s.ledger, s.chat, log, reg),
		sources: fleet.NewSources(s.ledger.Sources, log, reg),
		budgets: fleet.NewBudgets(limits.Fleet.PerMonth, perMonth(limits), s.ledger.CostSince, log, reg),
	}
	var ready []fleet.Check
	for _, c := range checks {
		ready = append(ready, fleet.Check(c))
	}
	a.ready = fleet.NewReadiness(ready, log, reg)
	if a.sender, err = deliver.New(cfg.deliver, log, reg); err != nil {
		return nil, err
	}
	cfg.evaluate.Judge = judgeOf(limits, book)
	cfg.evaluate.Settle = cfg.evaluate.Fresh + cfg.deliver.Timeout
	a.evaluator = evaluate.New(cfg.evaluate, limits, a.watcher, s.chat, a.sender, log, reg)
	a.toLedger = outbox.NewDrainer(outbox.DefaultConfig(), "alerts", s.chat.AlertsFor(postgres.ToLedger),
		outbox.Sink[store.AlertEvent]{Name: "clickhouse", Take: s.ledger.AppendAlertEvents}, log, reg)
	if a.sender.Webhook() != nil {
		one := outbox.DefaultConfig()
		one.Batch = 1 // so that a failure repeats no other
		a.toWebhook = outbox.NewDrainer(one, "webhook", s.chat.AlertsFor(postgres.ToWebhook),
			outbox.Sink[store.AlertEvent]{Name: "webhook", Take: a.evaluator.Tell}, log, reg)
	}
	return a, nil
}

// judgeOf names what tasks are judged by: the ceilings, and the models that they
// may name.
func judgeOf(limits *ceiling.Config, book *pricing.Book) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%q", limits.Fingerprint(), book.Names())) // a map is printed in order
	return hex.EncodeToString(sum[:])
}

func perMonth(c *ceiling.Config) map[string]usage.Nano {
	out := map[string]usage.Nano{}
	for project, b := range c.Projects {
		out[project] = b.PerMonth
	}
	return out
}

// keepAlerting runs each part as soon as the stores that it cannot do without
// are ready. Alerts that fire are sent whether or not ClickHouse is.
func (s *service) keepAlerting(ctx context.Context) error {
	a := s.alerting
	g, ctx := errgroup.WithContext(ctx)
	after := func(run func(context.Context) error, ready ...<-chan struct{}) {
		g.Go(func() error {
			if !waitFor(ctx, ready...) {
				return nil
			}
			return run(ctx)
		})
	}
	after(a.sender.Run)
	after(a.ready.Run)
	after(a.evaluator.Run, s.chatReady)
	after(a.watcher.Run, s.ledgerReady)
	after(a.sources.Run, s.ledgerReady)
	after(a.budgets.Run, s.ledgerReady)
	after(a.toLedger.Run, s.chatReady, s.ledgerReady)
	after(a.fleet.Run, s.chatReady, s.ledgerReady)
	if a.toWebhook != nil {
		after(a.toWebhook.Run, s.chatReady)
	}
	return g.Wait()
}

// waitFor waits for all of ready, and reports whether ctx still lives then.
func waitFor(ctx context.Context, ready ...<-chan struct{}) bool {
	for _, r := range ready {
		select {
		case <-ctx.Done():
			return false
		case <-r:
		}
	}
	return ctx.Err() == nil
}
