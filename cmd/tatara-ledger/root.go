package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tatara-ledger",
		Short: "What a fleet of coding agents costs, by whom, and whether its cache works",
		Long: `tatara-ledger collects token, cache and cost telemetry of coding agents into
ClickHouse and answers what they cost, per kind of work, repository, project,
model and task, exact to the nano-dollar. It keeps the handoffs and chat rooms by
which agents go on with each other's work.

Every flag can be given as an environment variable: TATARA_LEDGER_ and the
flag's name in capitals with underscores, such as TATARA_LEDGER_DATA_DIR.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newServeCommand(),
		newReportCommand(),
		newVerifyCommand(),
		newMigrateCommand(),
		newAlertsCommand(),
		newDashboardsCommand(),
		newCeilingsCommand(),
		newHookCommand(),
		newHandoffCommand(),
		newChatCommand(),
		newPricesCommand(),
		newSimulateCommand(),
		newEnginesCommand(),
	)
	return root
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

const environmentPrefix = "TATARA_LEDGER_"

// flagsFromEnvironment sets the flags that the command line left alone. Only
// exact names are read: for a Service called tatara-ledger Kubernetes injects
// variables of the same prefix, such as TATARA_LEDGER_PORT. Those that have the
// very name of a flag are told by their value: see [serviceVariable].
func flagsFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == "version" || err != nil {
			return
		}
		name := environmentPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := lookup(name); ok && !serviceVariable(f.Name, v) {
			if e := flags.Set(f.Name, v); e != nil {
				err = fmt.Errorf("environment variable %s: %w", name, e)
			}
		}
	})
	return err
}

// serviceVariable reports whether Kubernetes set the variable of a flag: for a
// Service called tatara-ledger-clickhouse it injects
// TATARA_LEDGER_CLICKHOUSE_PORT=tcp://10.0.0.1:8123, the name of --clickhouse-port.
func serviceVariable(flag, value string) bool {
	if !strings.HasSuffix(flag, "-port") {
		return false
	}
	protocol, _, ok := strings.Cut(value, "://")
	return ok && slices.Contains([]string{"tcp", "udp", "sctp"}, strings.ToLower(protocol))
}
