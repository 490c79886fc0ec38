package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/alerts"
	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
)

// newAlertsCommand renders what Prometheus and Alertmanager need to know. It
// needs no server.
func newAlertsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alerts",
		Short: "Render the alerting rules and an example of Alertmanager's routing",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newAlertsRenderCommand())
	return cmd
}

// alertsRender has the flags of the command.
type alertsRender struct {
	options  alerts.Options
	out      string
	format   string
	ceilings string
}

func newAlertsRenderCommand() *cobra.Command {
	r := alertsRender{options: alerts.DefaultOptions()}
	cmd := &cobra.Command{
		Use:   "render --out DIR",
		Short: "Write the rules and the routing into a folder",
		Long: `Write the alerting rules over the service's own metrics into a folder: for
Prometheus rules.yaml, for the Prometheus operator prometheusrule.yaml. Beside
them alertmanager.yaml, an example of routing in which a higher threshold of a
ceiling inhibits the lower ones of the same alert and task.

The same flags write the same bytes. Files of these names are replaced.`,
		Example: `  tatara-ledger alerts render --out /etc/prometheus/tatara-ledger
  tatara-ledger alerts render --out deploy --format kubernetes --dashboards https://grafana.example.org
  tatara-ledger alerts render --out deploy --ceilings ceilings.yaml --runaway-usd-per-hour 500`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&r.out, "out", "", "`folder` to write to; it is made if it is missing")
	f.StringVar(&r.format, "format", "prometheus", "form of the rules: prometheus or kubernetes")
	f.StringVar(&r.ceilings, "ceilings", "", "`file` of ceilings whose thresholds the routing inhibits (default: the shipped ones)")
	f.StringVar(&r.options.Runbooks, "runbooks", r.options.Runbooks, "`URL` of the folder of runbooks")
	f.StringVar(&r.options.Dashboards, "dashboards", r.options.Dashboards, "`URL` of Grafana")
	f.IntVar(&r.options.RunawayUSDPerHour, "runaway-usd-per-hour", r.options.RunawayUSDPerHour, "`dollars` per hour of one kind and project that page")
	if err := cmd.MarkFlagRequired("out"); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

func (r *alertsRender) run(w io.Writer) error {
	rules, name := alerts.Rules, "rules.yaml"
	switch r.format {
	case "prometheus":
	case "kubernetes":
		rules, name = alerts.PrometheusRule, "prometheusrule.yaml"
	default:
		return fmt.Errorf("unknown format %q: use prometheus or kubernetes", r.format)
	}
	limits, err := ceiling.LoadFile(r.ceilings)
	if err != nil {
		return err
	}
	r.options.Thresholds = limits.Thresholds
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return fmt.Errorf("making the folder: %w", err)
	}
	for _, file := range []struct {
		name   string
		render func(alerts.Options) ([]byte, error)
	}{{name, rules}, {"alertmanager.yaml", alerts.Routing}} {
		text, err := file.render(r.options)
		if err != nil {
			return fmt.Errorf("rendering %s: %w", file.name, err)
		}
		path := filepath.Join(r.out, file.name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		if _, err := fmt.Fprintln(w, path); err != nil {
			return err
		}
	}
	return nil
}
