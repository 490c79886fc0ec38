package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// storeFlags say where ClickHouse and Postgres are. Without addresses the
// embedded engines are meant.
type storeFlags struct {
	clickHouse             []string
	clickHouseDatabase     string
	clickHouseUser         string
	clickHousePasswordFile string
	postgres               string
	postgresPasswordFile   string
}

func (f *storeFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.clickHouse, "clickhouse", nil, "`host:port` of ClickHouse's HTTP interface, repeatable (default: the embedded one)")
	flags.StringVar(&f.clickHouseDatabase, "clickhouse-database", "tatara_ledger", "database of the ledger")
	flags.StringVar(&f.clickHouseUser, "clickhouse-user", "default", "user at a configured ClickHouse")
	flags.StringVar(&f.clickHousePasswordFile, "clickhouse-password-file", "", "`file` with that user's password")
	flags.StringVar(&f.postgres, "postgres", "", "`URL` of Postgres (default: the embedded one)")
	flags.StringVar(&f.postgresPasswordFile, "postgres-password-file", "", "`file` with the password for that URL")
}

// ledger is the configuration of the ledger's store, embedded or not.
func (f *storeFlags) ledger(e *engine.Engines) (clickhouse.Config, error) {
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

// openPostgres returns a pool for Postgres, embedded or not. It connects when
// it is first used.
func (f *storeFlags) openPostgres(ctx context.Context, e *engine.Engines) (*pgxpool.Pool, error) {
	dsn := f.postgres
	if dsn == "" {
		dsn = e.Postgres().DSN()
	}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading --postgres: %w", redact(err, dsn))
	}
	if f.postgresPasswordFile != "" {
		if cfg.ConnConfig.Password, err = readSecret(f.postgresPasswordFile); err != nil {
			return nil, err
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening Postgres: %w", err)
	}
	return pool, nil
}

// redact hides a DSN that may hold a password.
func redact(err error, dsn string) error {
	if u, e := url.Parse(dsn); e == nil && u.User != nil {
		return fmt.Errorf("%s is no connection URL", u.Redacted())
	}
	return err
}
