package clickhouse

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Config says where the ledger is.
type Config struct {
	// Addresses are host:port of ClickHouse's HTTP interface. Required.
	Addresses []string
	// Database holds all tables and views; it is created if absent.
	Database string
	User     string
	Password string
	// MaxConns bounds the connections; zero means 8. Too low makes queries
	// wait for each other, too high lets dashboards starve the writer.
	MaxConns int
}

// Store is the ledger in ClickHouse. It is safe for concurrent use.
type Store struct {
	conn     driver.Conn
	options  *clickhouse.Options
	database string
	heard    lastHeard
}

// Open returns a store. It connects when it is first used, so that a service
// can start while ClickHouse is away. The database and its tables are made by
// [Store.Migrate].
func Open(cfg Config) (*Store, error) {
	if len(cfg.Addresses) == 0 {
		return nil, errors.New("clickhouse: no address configured")
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 8
	}
	o := options(cfg)
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, fmt.Errorf("opening ClickHouse: %w", err)
	}
	return &Store{conn: conn, options: o, database: cfg.Database}, nil
}

func options(cfg Config) *clickhouse.Options {
	return &clickhouse.Options{
		Protocol:     clickhouse.HTTP,
		Addr:         cfg.Addresses,
		Auth:         clickhouse.Auth{Database: cfg.Database, Username: cfg.User, Password: cfg.Password},
		MaxOpenConns: cfg.MaxConns,
		MaxIdleConns: cfg.MaxConns,
		DialTimeout:  5 * time.Second,
		ReadTimeout:  2 * time.Minute,
		Settings: clickhouse.Settings{
			// An insert must be durable when it is answered. Since 26.3
			// asynchronous inserts are the server's default.
			"async_insert": 0,
			// A backfill of years is split by the writer; this is the bound
			// that it splits for, not the server's default of 100.
			"max_partitions_per_insert_block": maxPartitionsPerInsert,
			// Whole buckets must stay whole: never let a query see half.
			"max_execution_time": 120,
			// Lists of runs and ids are part of a query's text; 256 KiB, the
			// server's default, is too little for a backlog of a large fleet.
			"max_query_size": 256 << 20,
		},
	}
}

// createDatabase runs without a database, since naming one that is absent is
// an error.
func createDatabase(ctx context.Context, o clickhouse.Options, name string) error {
	o.Auth.Database = ""
	conn, err := clickhouse.Open(&o)
	if err != nil {
		return fmt.Errorf("opening ClickHouse: %w", err)
	}
	defer conn.Close()
	if err := conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quoteName(name)); err != nil {
		return fmt.Errorf("creating database %s: %w", name, err)
	}
	return nil
}

// IsAway reports whether err says that ClickHouse cannot be reached, or has not
// been migrated yet, and nothing about what was asked of it.
func IsAway(err error) bool {
	const unknownTable, unknownDatabase = 60, 81
	if e := (&clickhouse.Exception{}); errors.As(err, &e) {
		return e.Code == unknownTable || e.Code == unknownDatabase
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, sqldriver.ErrBadConn) // database/sql's for a connection that broke, of the migrations
}

// Ping reports whether ClickHouse answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.conn.Ping(ctx); err != nil {
		return fmt.Errorf("reaching ClickHouse: %w", err)
	}
	return nil
}

// Close closes the connections.
func (s *Store) Close() error { return s.conn.Close() }

// Clock is the server's clock in nanoseconds. Versions are made of it: they
// order derivations by what they could know, which the clocks of several
// replicas could not.
func (s *Store) Clock(ctx context.Context) (uint64, error) {
	var ns int64
	if err := s.conn.QueryRow(ctx, "SELECT toUnixTimestamp64Nano(now64(9))").Scan(&ns); err != nil {
		return 0, fmt.Errorf("reading the server's clock: %w", err)
	}
	return uint64(ns), nil
}
