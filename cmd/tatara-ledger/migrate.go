package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
)

type migrateFlags struct {
	clickHouse clickHouseFlags
	postgres   postgresFlags
	engine     engine.Config
}

func newMigrateCommand() *cobra.Command {
	f := migrateFlags{engine: engine.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schemas of ClickHouse and Postgres to this version",
		Long: `Bring the schemas of ClickHouse and Postgres to this version, and exit. serve
does the same when it starts; run it before where serve may not change schemas,
or to see what a new version does. Steps only go forward, the previous version
works on the new schema, and several may run at once.`,
		Example: `  tatara-ledger migrate --clickhouse ch:8123 --postgres postgres://ledger@pg/ledger
  tatara-ledger migrate --data-dir ./data`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.clickHouse.add(cmd.Flags())
	f.postgres.add(cmd.Flags())
	f.engine.ClickHouse.Port = 0 // only this command connects to an engine of its own
	f.engine.Flags(cmd.Flags())
	return cmd
}

func (f *migrateFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	f.engine.ClickHouse.Disabled = len(f.clickHouse.clickHouse) > 0
	f.engine.Postgres.Disabled = f.postgres.postgres != ""
	if err := errors.Join(f.engine.Validate(), f.postgres.validate()); err != nil {
		return &exitError{2, err}
	}
	log := newLogger(stderr, slog.LevelWarn)
	engines, err := engine.Start(ctx, f.engine, log)
	if errors.Is(err, engine.ErrInUse) {
		return fmt.Errorf("the service that runs on the folder has migrated at its start: %w", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engines.Close()) }()
	chatConfig, err := f.postgres.chat(engines)
	if err != nil {
		return err
	}
	chat, err := postgres.Open(ctx, chatConfig, log, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	defer chat.Close()
	ledgerConfig, err := f.clickHouse.ledger(engines)
	if err != nil {
		return err
	}
	ledger, err := clickhouse.Open(ledgerConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	return migrateBoth(ctx, stdout, chat, ledger)
}

func migrateBoth(ctx context.Context, stdout io.Writer, chat *postgres.Store, ledger *clickhouse.Store) error {
	s := service{chat: chat, ledger: ledger}
	for _, one := range []struct {
		store   string
		migrate func(context.Context) (int, error)
	}{{"Postgres", chat.Migrate}, {"ClickHouse", s.migrateLedger}} {
		steps, err := one.migrate(ctx)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%d steps", steps)
		switch steps {
		case 0:
			text = "up to date"
		case 1:
			text = "1 step"
		}
		if _, err := fmt.Fprintf(stdout, "%s: %s\n", one.store, text); err != nil {
			return err
		}
	}
	return nil
}
