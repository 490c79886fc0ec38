package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/dashboards"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// dashboardsCheck has the flags of the command.
type dashboardsCheck struct {
	store  clickHouseFlags
	engine engine.Config
	since  string
	points int
	values []string
	prices string
	format string
}

func newDashboardsCheckCommand() *cobra.Command {
	c := dashboardsCheck{engine: engine.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Run every query of the dashboards against a ledger",
		Long: `Run every query of every panel, variable and annotation against a ledger, as
Grafana and its ClickHouse datasource would, and say how many rows each has, how
long it took, and what went wrong. Give the account that Grafana has, to check its
rights too. It may run beside the service. A query with no rows is no error.

Exit status: 0 if every query ran, 1 if one did not, 2 on bad usage.`,
		Example: `  tatara-ledger dashboards check --data-dir ./data
  tatara-ledger dashboards check --clickhouse ch:8123 --clickhouse-user grafana --clickhouse-password-file pw
  tatara-ledger dashboards check --data-dir ./data --since 30d --value kind=review --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.since, "since", "24h", "how far the range reaches back, such as 90m, 24h or 7d")
	f.IntVar(&c.points, "points", 200, "about how many `points` a series has, which gives the interval")
	f.StringArrayVar(&c.values, "value", nil, "choose a `variable=value`, repeatable (default: all, or the first)")
	f.StringVar(&c.prices, "prices", "", pricesUsage)
	f.StringVar(&c.format, "format", "table", "output format: table or json")
	c.store.add(f)
	c.engine.ClickHouse.Port = 0 // only this command connects to an engine of its own
	c.engine.ClickHouseFlags(f)
	return cmd
}

func (c *dashboardsCheck) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if err := badFormat(c.format, "table", "json"); err != nil {
		return err
	}
	choice, err := c.choice(time.Now())
	if err != nil {
		return &exitError{2, err}
	}
	options, err := dashboardOptions(c.prices)
	if err != nil {
		return err
	}
	ledger, done, err := c.store.openLedger(ctx, c.engine, newLogger(stderr, slog.LevelWarn))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	reader, err := ledger.Reader()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	var results []dashboards.Result
	for _, d := range dashboards.All(options) {
		r, err := dashboards.Check(ctx, reader, &d, choice)
		if err != nil {
			return err
		}
		results = append(results, r...)
	}
	if err := writeCheck(stdout, results, c.format); err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		if r.Error != "" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d queries failed", failed, len(results))
	}
	return nil
}

func (c *dashboardsCheck) choice(now time.Time) (dashboards.Choice, error) {
	since, err := parseAge("--since", c.since)
	if err != nil {
		return dashboards.Choice{}, err
	}
	if since < time.Second || c.points < 1 {
		return dashboards.Choice{}, errors.New("--since and --points must be positive")
	}
	choice := dashboards.Choice{
		From: now.Add(-since), To: now, Interval: max(since/time.Duration(c.points), 5*time.Minute), Values: map[string][]string{},
	}
	for _, v := range c.values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || value == "" {
			return choice, fmt.Errorf("--value %q: use variable=value", v)
		}
		choice.Values[name] = append(choice.Values[name], value)
	}
	return choice, nil
}

func writeCheck(w io.Writer, results []dashboards.Result, format string) error {
	if format == "json" {
		return writeJSON(w, results)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "dashboard\tquery\tname\trows\ttime\terror")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", r.Dashboard, r.What, r.Name, r.Rows, r.Took.Round(time.Millisecond), oneLine(r.Error))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}
