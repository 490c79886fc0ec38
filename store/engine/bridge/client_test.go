package bridge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/shopspring/decimal"
)

var everyType = []struct {
	column string
	value  any
	out    func() any
}{
	{"a UInt8", uint8(200), func() any { return new(uint8) }},
	{"b Int64", int64(-5), func() any { return new(int64) }},
	{"c Float64", 1.5, func() any { return new(float64) }},
	{"d String", "x;\x00y'\\", func() any { return new(string) }},
	{"e FixedString(3)", "abc", func() any { return new(string) }},
	{"f LowCardinality(String)", "low", func() any { return new(string) }},
	{"g Nullable(String)", ptr("n"), func() any { return new(*string) }},
	{"h Nullable(UInt64)", (*uint64)(nil), func() any { return new(*uint64) }},
	{"i LowCardinality(Nullable(String))", ptr("ln"), func() any { return new(*string) }},
	{"j Array(String)", []string{"p", "", "q"}, func() any { return new([]string) }},
	{"k Array(Array(UInt32))", [][]uint32{{1}, {}, {2, 3}}, func() any { return new([][]uint32) }},
	{"l Map(String, UInt64)", map[string]uint64{"k": 1, "l": 2}, func() any { return new(map[string]uint64) }},
	{"m Map(LowCardinality(String), Array(Nullable(Int8)))", map[string][]*int8{"k": {ptr(int8(1)), nil}}, func() any { return new(map[string][]*int8) }},
	{"n Tuple(x String, y Int32)", map[string]any{"x": "t", "y": int32(4)}, func() any { return new(map[string]any) }},
	{"o Decimal(9, 2)", decimal.RequireFromString("1.23"), func() any { return new(decimal.Decimal) }},
	{"p Decimal(38, 10)", decimal.RequireFromString("-123.4567891234"), func() any { return new(decimal.Decimal) }},
	{"q Decimal(76, 3)", decimal.RequireFromString("9.001"), func() any { return new(decimal.Decimal) }},
	{"r UUID", uuid.MustParse("417ddc5d-e556-4d27-95dd-a34d84e46a50"), func() any { return new(uuid.UUID) }},
	{"s DateTime64(9, 'UTC')", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), func() any { return new(time.Time) }},
	{"t DateTime('UTC')", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), func() any { return new(time.Time) }},
	{"u Date32", time.Date(1960, 1, 2, 0, 0, 0, 0, time.UTC), func() any { return new(time.Time) }},
	{"v Enum8('one' = 1, 'two, (2)' = 2)", "two, (2)", func() any { return new(string) }},
	{"w IPv4", net.ParseIP("1.2.3.4").To4(), func() any { return new(net.IP) }},
	{"x IPv6", net.ParseIP("2001:db8::1"), func() any { return new(net.IP) }},
	{"y Bool", true, func() any { return new(bool) }},
	{"z Int256", *big.NewInt(-77), func() any { return new(big.Int) }},
	{"aa SimpleAggregateFunction(max, UInt32)", uint32(3), func() any { return new(uint32) }},
	{"ab Array(LowCardinality(String))", []string{}, func() any { return new([]string) }},
	{"ac Array(Tuple(String, Decimal(18, 4)))", [][]any{{"s", decimal.RequireFromString("2.5000")}}, func() any { return new([][]any) }},
}

func ptr[T any](v T) *T { return &v }

func TestEveryTypeRoundTrips(t *testing.T) {
	db := newDatabase(t)
	var columns []string
	var values []any
	for _, c := range everyType {
		columns, values = append(columns, c.column), append(values, c.value)
	}
	for method, compression := range map[string]*clickhouse.Compression{
		"none":    nil,
		"gzip":    {Method: clickhouse.CompressionGZIP, Level: 3},
		"deflate": {Method: clickhouse.CompressionDeflate, Level: 3},
		"brotli":  {Method: clickhouse.CompressionBrotli, Level: 3},
		"lz4":     {Method: clickhouse.CompressionLZ4},
		"zstd":    {Method: clickhouse.CompressionZSTD, Level: 3},
	} {
		t.Run(method, func(t *testing.T) {
			conn := connect(t, func(o *clickhouse.Options) {
				o.Auth.Database, o.Compression = db, compression
				o.Settings = clickhouse.Settings{"enable_http_compression": 1}
			})
			ctx := t.Context()
			table := "t_" + method
			if err := conn.Exec(ctx, "CREATE TABLE "+table+" ("+strings.Join(columns, ", ")+") ENGINE = MergeTree ORDER BY tuple()"); err != nil {
				t.Fatal(err)
			}
			batch, err := conn.PrepareBatch(ctx, "INSERT INTO "+table)
			if err != nil {
				t.Fatal(err)
			}
			const n = 1000
			for range n {
				if err := batch.Append(values...); err != nil {
					t.Fatal(err)
				}
			}
			if err := batch.Send(); err != nil {
				t.Fatal(err)
			}
			rows, err := conn.Query(ctx, "SELECT * FROM "+table)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			seen := 0
			for ; rows.Next(); seen++ {
				var dest []any
				for _, c := range everyType {
					dest = append(dest, c.out())
				}
				if err := rows.Scan(dest...); err != nil {
					t.Fatal(err)
				}
				for i, c := range everyType {
					if diff := cmp.Diff(fmt.Sprint(deref(c.value)), fmt.Sprint(deref(dest[i]))); diff != "" {
						t.Fatalf("%s: %s", c.column, diff)
					}
				}
			}
			if err := rows.Err(); err != nil || seen != n {
				t.Fatal(seen, err)
			}
		})
	}
}

// deref shows what a pointer points to, so that values compare as text.
func deref(v any) any {
	switch p := v.(type) {
	case *uint8:
		return *p
	case *int64:
		return *p
	case *float64:
		return *p
	case *string:
		if p == nil {
			return "<nil>"
		}
		return *p
	case **string:
		return deref(*p)
	case *uint64:
		if p == nil {
			return "<nil>"
		}
		return *p
	case **uint64:
		return deref(*p)
	case *[]string:
		return *p
	case *[][]uint32:
		return *p
	case *map[string]uint64:
		return *p
	case *map[string][]*int8:
		return deref(*p)
	case map[string][]*int8:
		var out []string
		for k, l := range p {
			for _, e := range l {
				if e == nil {
					out = append(out, k+"=nil")
				} else {
					out = append(out, fmt.Sprint(k, "=", *e))
				}
			}
		}
		return out
	case *map[string]any:
		return *p
	case *decimal.Decimal:
		return p.String()
	case decimal.Decimal:
		return p.String()
	case *uuid.UUID:
		return *p
	case *time.Time:
		return p.UTC()
	case *net.IP:
		return *p
	case *bool:
		return *p
	case *big.Int:
		return p.String()
	case big.Int:
		return p.String()
	case *uint32:
		return *p
	case *[][]any:
		return *p
	}
	return v
}

func TestColumnarInsertAndParameters(t *testing.T) {
	db := newDatabase(t)
	conn := connect(t, func(o *clickhouse.Options) { o.Auth.Database = db })
	ctx := t.Context()
	if err := conn.Exec(ctx, "CREATE TABLE t (a UInt64, b LowCardinality(String), c Array(UInt8)) ENGINE = MergeTree ORDER BY a"); err != nil {
		t.Fatal(err)
	}
	batch, err := conn.PrepareBatch(clickhouse.Context(ctx, clickhouse.WithQueryID("q-1"), clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0})), "INSERT INTO t (b, a, c)")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(batch.Column(0).Append([]string{"x", "y"}), batch.Column(1).Append([]uint64{1, 2}), batch.Column(2).Append([][]uint8{{1}, {}})); err != nil {
		t.Fatal(err)
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	var got string
	for _, c := range []struct {
		ctx  context.Context
		sql  string
		args []any
		want string
	}{
		{ctx, "SELECT b FROM t WHERE a = {n:UInt64}", []any{clickhouse.Named("n", 2)}, "y"},
		{ctx, "SELECT b FROM t WHERE a = ?", []any{1}, "x"},
		{ctx, "SELECT {s:String}", []any{clickhouse.Named("s", "q;'\\\t\n\x00z")}, "q;'\\\t\n\x00z"},
		{clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"t": "t"})), "SELECT toString(count()) FROM {t:Identifier}", nil, "2"},
		{clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_block_size": 7})), "SELECT toString(getSetting('max_block_size'))", nil, "7"},
		{ctx, "SELECT toString(getSetting('max_block_size') = 7)", nil, "0"},
	} {
		if err := conn.QueryRow(c.ctx, c.sql, c.args...).Scan(&got); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.sql, got, err, c.want)
		}
	}
	var ex *clickhouse.Exception
	if err := conn.QueryRow(ctx, "SELECT * FROM nowhere").Scan(&got); !errors.As(err, &ex) || ex.Code != 60 || ex.Name != "DB::Exception" {
		t.Errorf("%#v", err)
	}
	if err := conn.Exec(ctx, "INSERT INTO t VALUES (9, 'z', [1, 2])"); err != nil {
		t.Error(err)
	}
	//nolint:staticcheck // deprecated, and still what documented examples use
	if err := conn.AsyncInsert(ctx, "INSERT INTO t VALUES (10, 'async;', [])", true); err != nil {
		t.Error(err)
	}
	if err := conn.QueryRow(ctx, "SELECT b FROM t WHERE a = 10").Scan(&got); err != nil || got != "async;" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestStandardAPI(t *testing.T) {
	db := newDatabase(t)
	std := clickhouse.OpenDB(options(t, func(o *clickhouse.Options) { o.Auth.Database = db }))
	defer std.Close()
	ctx := t.Context()
	if err := std.PingContext(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := std.ExecContext(ctx, "CREATE TABLE t (a UInt64, b Nullable(String)) ENGINE = MergeTree ORDER BY a"); err != nil {
		t.Fatal(err)
	}
	tx, err := std.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := tx.PrepareContext(ctx, "INSERT INTO t")
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	for i := range 100 {
		if _, err := batch.ExecContext(ctx, uint64(i), sql.NullString{String: "x", Valid: i%2 == 0}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var n, filled uint64
	if err := std.QueryRowContext(ctx, "SELECT count(), count(b) FROM t WHERE a < @max", clickhouse.Named("max", 50)).Scan(&n, &filled); err != nil || n != 50 || filled != 25 {
		t.Fatal(n, filled, err)
	}
}

func TestExternalTable(t *testing.T) {
	conn := connect(t, nil)
	table, err := ext.NewTable("ids", ext.Column("id", "UInt64"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := table.Append(uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	var sum uint64
	if err := conn.QueryRow(clickhouse.Context(t.Context(), clickhouse.WithExternalTable(table)), "SELECT sum(id) FROM ids").Scan(&sum); err != nil || sum != 45 {
		t.Fatal(sum, err)
	}
}

func TestCancelKillsTheQuery(t *testing.T) {
	conn := connect(t, nil)
	for _, q := range []string{
		"SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 42 /* cancel-me */",
		"SELECT sipHash64(number) FROM numbers(1000000000000) /* cancel-me */",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		rows, err := conn.Query(ctx, q)
		if err == nil {
			for rows.Next() {
			}
			err = errors.Join(rows.Err(), rows.Close())
		}
		cancel()
		if err == nil {
			t.Error("the query ended")
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		left := mustPost(t, nil, "SELECT count() FROM system.processes WHERE query LIKE '%cancel-me%' AND query NOT LIKE '%processes%'")
		if left == "0\n" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("cancelled queries still run")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestSettingsDoNotLeak(t *testing.T) {
	conn := connect(t, func(o *clickhouse.Options) { o.MaxOpenConns, o.MaxIdleConns = 6, 6 })
	var group sync.WaitGroup
	for worker := range 6 {
		group.Go(func() {
			for i := range 30 {
				size := uint64(1000 + worker)
				ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_block_size": size}))
				sql := "SELECT toUInt64(getSetting('max_block_size')), toUInt64(getSetting('max_threads_for_indexes'))"
				if i%3 == 0 { // an error must not keep its settings either
					_ = conn.Exec(clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_threads_for_indexes": 99})), "SELECT throwIf(1)")
				}
				var got, other uint64
				if err := conn.QueryRow(ctx, sql).Scan(&got, &other); err != nil || got != size || other != 0 {
					t.Errorf("worker %d: %d, %d, %v", worker, got, other, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestTooManyQueries(t *testing.T) {
	needEngine(t)
	var group sync.WaitGroup
	refused := make(chan reply, 20)
	for range 12 {
		group.Go(func() {
			got := post(t, nil, "SELECT sleep(3)")
			if got.status != 200 {
				refused <- got
			}
		})
	}
	group.Wait()
	close(refused)
	n := 0
	for got := range refused {
		n++
		if got.header.Get("X-ClickHouse-Exception-Code") != "202" {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if n != 4 {
		t.Errorf("%d refused, want 4", n)
	}
}
