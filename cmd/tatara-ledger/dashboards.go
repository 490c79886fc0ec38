package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/dashboards"
)

// newDashboardsCommand renders, pushes and checks the dashboards.
func newDashboardsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dashboards",
		Short: "Render Grafana's dashboards, push them, and check their queries",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newDashboardsRenderCommand(), newDashboardsPushCommand(), newDashboardsCheckCommand())
	return cmd
}

const pricesUsage = "price `file` laid over the shipped book: prices of the comparison with another model"

// dashboardOptions are those of a price file.
func dashboardOptions(prices string) (dashboards.Options, error) {
	book, err := pricing.LoadFile(prices)
	if err != nil {
		return dashboards.Options{}, err
	}
	return dashboards.Options{Prices: book.Rows()}, nil
}

// dashboardsRender has the flags of the command.
type dashboardsRender struct {
	provisioning dashboards.Provisioning
	out          string
	prices       string
}

func newDashboardsRenderCommand() *cobra.Command {
	r := dashboardsRender{provisioning: dashboards.DefaultProvisioning()}
	cmd := &cobra.Command{
		Use:   "render --out DIR",
		Short: "Write the dashboards and what provisions them into a folder",
		Long: `Write the dashboards for Grafana 10 to 13 into a folder:

  dashboards/    one JSON file each
  provisioning/  for Grafana's provisioning folder: the datasource, whose password
                 Grafana reads from its environment (` + dashboards.PasswordVariable + `),
                 and where the dashboards are
  kubernetes/    a ConfigMap of each dashboard, as the sidecar of Grafana's chart
                 looks for them

The same flags write the same bytes. Files of these names are replaced.`,
		Example: `  tatara-ledger dashboards render --out ./grafana
  tatara-ledger dashboards render --out ./grafana --datasource-address clickhouse:8123 --datasource-user reader`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.OutOrStdout()) },
	}
	f, p := cmd.Flags(), &r.provisioning
	f.StringVar(&r.out, "out", "", "`folder` to write to; it is made if it is missing")
	f.StringVar(&r.prices, "prices", "", pricesUsage)
	f.StringVar(&p.Address, "datasource-address", p.Address, "`host:port` of ClickHouse's HTTP interface, as Grafana reaches it")
	f.BoolVar(&p.Secure, "datasource-secure", false, "Grafana reaches ClickHouse by HTTPS")
	f.StringVar(&p.User, "datasource-user", p.User, "user that may read the published views")
	f.StringVar(&p.Database, "datasource-database", p.Database, "database of the ledger")
	f.StringVar(&p.Folder, "folder", p.Folder, "title of Grafana's folder")
	f.StringVar(&p.Path, "path", p.Path, "`folder` on Grafana's machine that the dashboards are put in")
	if err := cmd.MarkFlagRequired("out"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

func (r *dashboardsRender) run(w io.Writer) error {
	options, err := dashboardOptions(r.prices)
	if err != nil {
		return err
	}
	files, err := dashboards.Files(options, r.provisioning)
	if err != nil {
		return &exitError{2, err}
	}
	for _, f := range files {
		path := filepath.Join(r.out, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the folder: %w", err)
		}
		if err := os.WriteFile(path, f.Text, 0o644); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		if _, err := fmt.Fprintln(w, path); err != nil {
			return err
		}
	}
	return nil
}
