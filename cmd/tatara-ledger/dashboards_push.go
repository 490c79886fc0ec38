package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/dashboards"
)

// dashboardsPush has the flags of the command.
type dashboardsPush struct {
	options   dashboards.PushOptions
	grafana   string
	tokenFile string
	prices    string
}

func newDashboardsPushCommand() *cobra.Command {
	p := dashboardsPush{options: dashboards.PushOptions{Folder: dashboards.DefaultProvisioning().Folder}}
	cmd := &cobra.Command{
		Use:   "push --grafana URL",
		Short: "Bring the dashboards into a Grafana by its HTTP API",
		Long: `Bring the dashboards into a folder of a Grafana, which is made if it is missing.
The token is that of a service account that may write folders and dashboards.

A dashboard that differs from what is pushed is left alone without --overwrite.
With --dry-run nothing is changed, and what would be is printed as a diff.

Exit status: 0 if all is as it should be, 1 if a dashboard was left alone or
something failed, 2 on bad usage.`,
		Example: `  tatara-ledger dashboards push --grafana https://grafana.example.com --grafana-token-file token --dry-run
  tatara-ledger dashboards push --grafana https://grafana.example.com --grafana-token-file token --overwrite`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&p.grafana, "grafana", "", "`URL` of Grafana")
	f.StringVar(&p.tokenFile, "grafana-token-file", "", "`file` with the token of a service account")
	f.StringVar(&p.prices, "prices", "", pricesUsage)
	f.StringVar(&p.options.Folder, "folder", p.options.Folder, "title of the folder, if it is to be made")
	f.BoolVar(&p.options.Overwrite, "overwrite", false, "replace dashboards that differ")
	f.BoolVar(&p.options.DryRun, "dry-run", false, "change nothing, print what would change")
	if err := cmd.MarkFlagRequired("grafana"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

func (p *dashboardsPush) run(ctx context.Context, w io.Writer) error {
	options, err := dashboardOptions(p.prices)
	if err != nil {
		return err
	}
	var token string
	if p.tokenFile != "" {
		if token, err = readSecret(p.tokenFile); err != nil {
			return err
		}
	}
	grafana, err := dashboards.NewGrafana(p.grafana, token)
	if err != nil {
		return &exitError{2, err}
	}
	changes, err := grafana.Push(ctx, dashboards.All(options), p.options)
	refused := 0
	for _, c := range changes {
		if c.State == dashboards.Refused {
			refused++
		}
		line := c.State + "\t" + c.UID + "\n"
		if p.options.DryRun {
			line += c.Diff
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if refused > 0 && !p.options.DryRun {
		return fmt.Errorf("%d dashboards differ and were left alone: --overwrite replaces them", refused)
	}
	return nil
}
