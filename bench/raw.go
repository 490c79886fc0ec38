package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// The rows of the raw limit are those that a call becomes, without its hashes
// of identity, in a plain MergeTree without indexes or fsync.
const rawTable = `CREATE TABLE raw.rows (id UUID, source_id String, time DateTime64(3, 'UTC'), arrived DateTime64(3, 'UTC'),
	feed LowCardinality(String), project LowCardinality(String), repo LowCardinality(String), kind LowCardinality(String),
	task String, issue String, run String, session String, model LowCardinality(String), effort LowCardinality(String),
	agent LowCardinality(String), input_tokens UInt64, output_tokens UInt64, cache_read_tokens UInt64,
	cache_write_tokens UInt64, cache_write_5m_tokens UInt64, cache_write_1h_tokens UInt64, web_searches UInt64,
	speed LowCardinality(String), batch Bool, inference_geo LowCardinality(String), reported_nano Nullable(Int64),
	duration_ms UInt64) ENGINE = MergeTree ORDER BY time`

const (
	rawBatch       = 100_000
	rawConnections = 2
)

// rawInserts is how many rows per second clickhouse-go alone writes: columnar
// appends, two connections, the columns ready in memory.
func rawInserts(ctx context.Context, a engine.ClickHouseAddress, rows int) (float64, error) {
	conn, err := clickhouse.Open(&clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{a.Addr}, MaxOpenConns: rawConnections, MaxIdleConns: rawConnections,
		Auth:     clickhouse.Auth{Username: a.User, Password: a.Password.Reveal()},
		Settings: clickhouse.Settings{"async_insert": 0},
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for _, q := range []string{"CREATE DATABASE raw", rawTable} {
		if err := conn.Exec(ctx, q); err != nil {
			return 0, err
		}
	}
	defer func() { _ = conn.Exec(ctx, "DROP DATABASE raw") }()
	var blocks [rawConnections][]any
	for i := range blocks {
		blocks[i] = rawColumns(newFleet(uint64(i), time.Now().UTC().Add(-time.Hour)))
	}
	start := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for _, columns := range blocks {
		g.Go(func() error {
			for done := 0; done < rows/rawConnections; done += rawBatch {
				if err := insertColumns(gctx, conn, columns); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	elapsed := time.Since(start).Seconds()
	var n uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM raw.rows").Scan(&n); err != nil {
		return 0, err
	}
	return float64(n) / elapsed, nil
}

func insertColumns(ctx context.Context, conn driver.Conn, columns []any) error {
	b, err := conn.PrepareBatch(ctx, "INSERT INTO raw.rows")
	if err != nil {
		return err
	}
	for i, c := range columns {
		if err := b.Column(i).Append(c); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return b.Send()
}

func rawColumns(f *fleet) []any {
	events := make([]usage.Event, rawBatch)
	for i := range events {
		events[i] = f.next()
	}
	return []any{
		rawColumn(events, func(e *usage.Event) uuid.UUID { return uuid.UUID(usage.Hash(e.SourceID)) }),
		rawColumn(events, func(e *usage.Event) string { return e.SourceID }),
		rawColumn(events, func(e *usage.Event) time.Time { return e.Time }),
		rawColumn(events, func(e *usage.Event) time.Time { return e.Time }),
		rawColumn(events, func(e *usage.Event) string { return string(e.Feed) }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Project }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Repo }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Kind }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Task }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Issue }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Run }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Session }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Model }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Effort }),
		rawColumn(events, func(e *usage.Event) string { return e.Labels.Agent }),
		rawColumn(events, func(e *usage.Event) uint64 { return e.Tokens.Input }),
		rawColumn(events, func(e *usage.Event) uint64 { return e.Tokens.Output }),
		rawColumn(events, func(e *usage.Event) uint64 { return e.Tokens.CacheRead }),
		rawColumn(events, func(e *usage.Event) uint64 { return e.Tokens.CacheWrite }),
		rawColumn(events, func(e *usage.Event) uint64 { return e.Tokens.CacheWrite5m }),
		rawColumn(events, func(e *usage.Event) uint64 { return e.Tokens.CacheWrite1h }),
		rawColumn(events, func(e *usage.Event) uint64 { return e.WebSearches }),
		rawColumn(events, func(e *usage.Event) string { return e.Speed }),
		rawColumn(events, func(e *usage.Event) bool { return e.Batch }),
		rawColumn(events, func(e *usage.Event) string { return e.InferenceGeo }),
		rawColumn(events, func(e *usage.Event) *int64 { return e.Reported.Ptr() }),
		rawColumn(events, func(e *usage.Event) uint64 { return uint64(e.Duration.Milliseconds()) }),
	}
}

func rawColumn[V any](events []usage.Event, value func(*usage.Event) V) []V {
	out := make([]V, len(events))
	for i := range events {
		out[i] = value(&events[i])
	}
	return out
}
