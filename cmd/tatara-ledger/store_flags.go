package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
)

// clickHouseFlags say where ClickHouse is. Without an address the embedded one
// is meant.
type clickHouseFlags struct {
	clickHouse             []string
	clickHouseDatabase     string
	clickHouseUser         string
	clickHousePasswordFile string
}

// postgresFlags say where Postgres is. Without an address the embedded one is
// meant.
type postgresFlags struct {
	postgres             string
	postgresPasswordFile string
	postgresConns        int
}

func (f *clickHouseFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.clickHouse, "clickhouse", nil, "`host:port` of ClickHouse's HTTP interface, repeatable (default: the embedded one)")
	flags.StringVar(&f.clickHouseDatabase, "clickhouse-database", "tatara_ledger", "database of the ledger")
	flags.StringVar(&f.clickHouseUser, "clickhouse-user", "default", "user at a configured ClickHouse")
	flags.StringVar(&f.clickHousePasswordFile, "clickhouse-password-file", "", "`file` with that user's password")
}

func (f *postgresFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.postgres, "postgres", "", "`URL` of Postgres (default: the embedded one)")
	flags.StringVar(&f.postgresPasswordFile, "postgres-password-file", "", "`file` with the password for that URL")
	flags.IntVar(&f.postgresConns, "postgres-connections", postgres.DefaultConfig().MaxConns, "how many `connections` to Postgres requests share; one more listens")
}

func (f *postgresFlags) validate() error {
	cfg := postgres.DefaultConfig()
	cfg.MaxConns = f.postgresConns
	return cfg.Validate()
}

// ledger is the configuration of the ledger's store, embedded or not.
func (f *clickHouseFlags) ledger(e *engine.Engines) (clickhouse.Config, error) {
	cfg := clickhouse.Config{Addresses: f.clickHouse, Database: f.clickHouseDatabase, User: f.clickHouseUser}
	if len(f.clickHouse) == 0 {
		a := e.ClickHouse()
		cfg.Addresses, cfg.User, cfg.Password = []string{a.Addr}, a.User, a.Password.Reveal()
		return cfg, nil
	}
	if f.clickHousePasswordFile == "" {
		return cfg, nil
	}
	var err error
	cfg.Password, err = readSecret(f.clickHousePasswordFile)
	return cfg, err
}

// chat is the configuration of the store of handoffs and rooms, embedded or
// not.
func (f *postgresFlags) chat(e *engine.Engines) (postgres.Config, error) {
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.MaxConns = f.postgres, f.postgresConns
	if cfg.URL == "" {
		cfg.URL = e.Postgres().DSN()
	}
	if f.postgresPasswordFile == "" {
		return cfg, nil
	}
	var err error
	cfg.Password, err = readSecret(f.postgresPasswordFile)
	return cfg, err
}

// openLedger opens the ledger's store wherever it is: at the configured
// address, at the engines that a service runs on the data folder, or at
// engines of its own if none does. done gives back what it took.
func (f *clickHouseFlags) openLedger(ctx context.Context, cfg engine.Config, log *slog.Logger) (_ *clickhouse.Store, done func() error, err error) {
	var engines *engine.Engines
	found := *f
	if len(f.clickHouse) == 0 {
		// Engines would make what is missing: a mistyped folder must stay absent.
		if _, err := os.Stat(filepath.Join(cfg.DataDir, "clickhouse")); err != nil {
			return nil, nil, fmt.Errorf("no ledger in --%s: %w", engine.FlagDataDir, err)
		}
		cfg.Postgres.Disabled = true
		engines, err = engine.Start(ctx, cfg, log)
		switch {
		case errors.Is(err, engine.ErrInUse):
			// Not the configured port: the password must not go to whoever has that.
			port, err := engine.ClickHousePortInUse(cfg.DataDir)
			if err != nil {
				return nil, nil, fmt.Errorf("finding the running ClickHouse: %w", err)
			}
			found.clickHouse = []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
			found.clickHouseUser = "ledger"
			found.clickHousePasswordFile = filepath.Join(cfg.DataDir, "secrets", "clickhouse")
		case err != nil:
			return nil, nil, err
		}
	}
	closeEngines := func() error {
		if engines == nil {
			return nil
		}
		return engines.Close()
	}
	ledger, err := found.ledger(engines)
	if err != nil {
		return nil, nil, errors.Join(err, closeEngines())
	}
	store, err := clickhouse.Open(ledger)
	if err != nil {
		return nil, nil, errors.Join(err, closeEngines())
	}
	return store, func() error { return errors.Join(store.Close(), closeEngines()) }, nil
}
