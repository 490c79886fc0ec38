package bridge

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

func guardedDatabase(t *testing.T) {
	t.Helper()
	needEngine(t)
	for _, sql := range []string{
		"CREATE DATABASE IF NOT EXISTS guarded",
		"CREATE TABLE IF NOT EXISTS guarded.raw (a UInt32, secret String) ENGINE = MergeTree ORDER BY a",
		"TRUNCATE TABLE guarded.raw",
		"INSERT INTO guarded.raw VALUES (1, 'hush'), (2, 'hush')",
		"CREATE OR REPLACE VIEW guarded.spend DEFINER = CURRENT_USER SQL SECURITY DEFINER AS SELECT a FROM guarded.raw",
		"CREATE OR REPLACE VIEW guarded.`odd ``name` DEFINER = CURRENT_USER SQL SECURITY DEFINER AS SELECT a FROM guarded.raw",
		"CREATE OR REPLACE VIEW guarded.private DEFINER = CURRENT_USER SQL SECURITY DEFINER AS SELECT * FROM guarded.raw",
		"CREATE OR REPLACE DICTIONARY guarded.dict (a UInt64, secret String) PRIMARY KEY a SOURCE(CLICKHOUSE(DB 'guarded' TABLE 'raw')) LAYOUT(FLAT()) LIFETIME(0)",
		"CREATE TABLE IF NOT EXISTS guarded.joined (a UInt32, secret String) ENGINE = Join(ANY, LEFT, a)",
		"CREATE OR REPLACE FUNCTION guarded_peek AS x -> file(x)",
	} {
		mustPost(t, nil, sql)
	}
}

func TestRestrictedAccountMay(t *testing.T) {
	guardedDatabase(t)
	for _, c := range []struct {
		name, sql, want string
		params          url.Values
	}{
		{"read a view", "SELECT sum(a) FROM guarded.spend", "3\n", nil},
		{"read it through the current database", "SELECT sum(a) FROM spend", "3\n", url.Values{"database": {"guarded"}}},
		{"odd name", "SELECT count() FROM guarded.`odd ``name`", "2\n", nil},
		{"subqueries, joins, CTE", "WITH x AS (SELECT a FROM guarded.spend) SELECT count() FROM x JOIN (SELECT a FROM guarded.spend) AS y USING a WHERE a IN (SELECT a FROM x)", "2\n", nil},
		{"union", "SELECT 1 UNION ALL SELECT count() FROM guarded.spend FORMAT TSV", "", nil},
		{"intersect", "SELECT a FROM guarded.spend INTERSECT SELECT a FROM guarded.spend", "", nil},
		{"window, lambda, array", "SELECT sum(a) OVER (), arrayMap(x -> x + 1, [a]) FROM guarded.spend LIMIT 1", "3\t[2]\n", nil},
		{"grafana's hello", "SELECT 1", "1\n", nil},
		{"grafana's constants", "SELECT displayName() != '', version() != '', revision() > 1, timezone() != ''", "1\t1\t1\t1\n", nil},
		{"list databases", "SELECT name FROM system.databases ORDER BY name", "guarded\n", nil},
		{"list tables", "SELECT name FROM system.tables WHERE database = 'guarded' ORDER BY name", "odd `name\nspend\n", nil},
		{"list columns", "SELECT name FROM system.columns WHERE database = 'guarded' AND table = 'spend'", "a\n", nil},
		{"show tables", "SHOW TABLES FROM guarded", "odd `name\nspend\n", nil},
		{"show databases", "SHOW DATABASES", "guarded\n", nil},
		{"describe", "DESCRIBE TABLE guarded.spend", "a\tUInt32\t\t\t\t\t\n", nil},
		{"describe a query", "DESCRIBE (SELECT a FROM guarded.spend)", "", nil},
		{"functions", "SELECT count() > 100 FROM system.functions", "1\n", nil},
		{"information schema", "SELECT table_name FROM information_schema.tables ORDER BY 1", "odd `name\nspend\n", nil},
		{"parameters", "SELECT count() FROM {d:Identifier}.{t:Identifier} WHERE a = {a:UInt32}", "1\n", url.Values{"param_d": {"guarded"}, "param_t": {"spend"}, "param_a": {"2"}}},
		{"lower a limit", "SELECT getSetting('max_execution_time'), getSetting('max_result_rows')", "5\t10\n", url.Values{"max_execution_time": {"5"}, "max_result_rows": {"10"}}},
		{"a longer deadline is cut", "SELECT getSetting('max_execution_time')", "30\n", url.Values{"max_execution_time": {"65"}}},
		{"no deadline is the limit", "SELECT getSetting('max_execution_time')", "30\n", url.Values{"max_execution_time": {"0"}}},
		{"limits hold", "SELECT getSetting('readonly'), getSetting('max_memory_usage'), getSetting('max_execution_time')", "1\t1073741824\t30\n", nil},
		{"own readonly", "SELECT getSetting('readonly')", "1\n", url.Values{"readonly": {"2"}}},
		{"format settings", "SELECT 1 AS x FORMAT JSON", "", url.Values{"output_format_json_quote_64bit_integers": {"0"}}},
		{"what dashboards use", "SELECT toStartOfInterval(toDateTime(0, 'UTC'), INTERVAL 5 MINUTE) AS t, sumIf(a, a > 1), quantilesTDigestIf(0.5, 0.9)(a, 1), uniqExactOrNull(a), argMax(a, a), topK(2)(a), CAST(a AS String) AS s, if(a = 1, 'x', 'y'), multiIf(a = 1, 1, 2), groupArray(a), coalesce(NULL, a), row_number() OVER (ORDER BY a), lagInFrame(a) OVER (ORDER BY a), a::UInt8, (a, 1).1, [1, 2][1], a BETWEEN 1 AND 2, CASE WHEN a = 1 THEN 'p' ELSE 'q' END, countIf(a > 0), toDateTime64('2020-01-01', 3) AS d, arraySum(x -> x * 2, [1]), map('k', 1)['k'], date_trunc('hour', now()), sumMap(map('a', 1)), grouping(a), not a = 1, a IS NULL, s LIKE 'x', -a, untuple((1, 2)) FROM guarded.spend GROUP BY a WITH ROLLUP ORDER BY a LIMIT 0", "", nil},
		{"exists", "SELECT count() FROM guarded.spend AS s WHERE EXISTS (SELECT 1 FROM guarded.spend AS u WHERE u.a = s.a)", "2\n", nil},
		{"columns", "SELECT COLUMNS('a') EXCEPT (b) REPLACE (a + 1 AS a) APPLY (x -> x + 1) FROM guarded.spend LIMIT 1", "", nil},
		{"values", "SELECT sum(x) FROM values('x UInt8', 1, 2)", "3\n", nil},
		{"alias named like a system table", "SELECT x.a FROM guarded.spend AS x LIMIT 0", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := grafana(t, c.params, c.sql)
			if got.status != 200 || (c.want != "" && got.body != c.want) {
				t.Errorf("status %d, %q; want %q", got.status, got.body, c.want)
			}
		})
	}
}

func TestRestrictedAccountMayNot(t *testing.T) {
	guardedDatabase(t)
	for _, c := range []struct {
		name, sql string
		params    url.Values
	}{
		{"raw table", "SELECT * FROM guarded.raw", nil},
		{"raw table unqualified", "SELECT * FROM raw", url.Values{"database": {"guarded"}}},
		{"raw table by parameter", "SELECT * FROM {d:Identifier}.{t:Identifier}", url.Values{"param_d": {"guarded"}, "param_t": {"raw"}}},
		{"unpublished view", "SELECT * FROM guarded.private", nil},
		{"subquery", "SELECT a FROM guarded.spend WHERE a IN (SELECT a FROM guarded.raw)", nil},
		{"scalar subquery", "SELECT (SELECT max(secret) FROM guarded.raw)", nil},
		{"scalar subquery in CTE", "WITH (SELECT max(secret) FROM guarded.raw) AS s SELECT s", nil},
		{"IN table", "SELECT 1 WHERE 1 IN guarded.raw", nil},
		{"IN system table", "SELECT 1 WHERE ('a', 'b') IN system.users", nil},
		{"CTE", "WITH x AS (SELECT * FROM guarded.raw) SELECT * FROM x", nil},
		{"join", "SELECT * FROM guarded.spend AS s JOIN guarded.raw AS r USING a", nil},
		{"union", "SELECT a FROM guarded.spend UNION ALL SELECT a FROM guarded.raw", nil},
		{"merge()", "SELECT * FROM merge('guarded', '.*')", nil},
		{"view()", "SELECT * FROM view(SELECT * FROM guarded.raw)", nil},
		{"viewExplain", "SELECT * FROM (EXPLAIN SELECT * FROM guarded.raw)", nil},
		{"explain", "EXPLAIN SELECT * FROM guarded.raw", nil},
		{"describe raw", "DESCRIBE guarded.raw", nil},
		{"describe query", "DESCRIBE (SELECT * FROM guarded.raw)", nil},
		{"describe file()", "DESCRIBE TABLE file('/etc/passwd', 'LineAsString')", nil},
		{"show create", "SHOW CREATE TABLE guarded.spend", nil},
		{"dictGet", "SELECT dictGet('guarded.dict', 'secret', toUInt64(1))", nil},
		{"dictionary()", "SELECT * FROM dictionary('guarded.dict')", nil},
		{"dictionary as table", "SELECT * FROM guarded.dict", nil},
		{"joinGet", "SELECT joinGet('guarded.joined', 'secret', toUInt32(1))", nil},
		{"hasColumnInTable", "SELECT hasColumnInTable('guarded', 'raw', 'secret')", nil},
		{"file()", "SELECT * FROM file('/etc/passwd', 'LineAsString')", nil},
		{"file function", "SELECT file('/etc/passwd')", nil},
		{"file function, case", "SELECT `file`('/etc/passwd') AS `x (children 1)`", nil},
		{"file function in lambda", "SELECT arrayMap(x -> file(x), ['/etc/passwd'])", nil},
		{"file by user function", "SELECT guarded_peek('/etc/passwd')", nil},
		{"file as table", "SELECT * FROM default.`/etc/passwd`", nil},
		{"file as table, unqualified", "SELECT * FROM `/etc/passwd`", nil},
		{"url()", "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", nil},
		{"s3()", "SELECT * FROM s3('http://127.0.0.1:1/bucket/x', 'LineAsString')", nil},
		{"remote()", "SELECT * FROM remote('127.0.0.1', 'system', 'one')", nil},
		{"executable()", "SELECT * FROM executable('ls', 'LineAsString', 'a String')", nil},
		{"mysql()", "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')", nil},
		{"mergeTreeIndex", "SELECT * FROM mergeTreeIndex('guarded', 'raw')", nil},
		{"numbers bomb", "SELECT sum(number) FROM numbers(1000000000000)", nil},
		{"generateRandom", "SELECT * FROM generateRandom('a UInt8')", nil},
		{"system.numbers", "SELECT * FROM system.numbers", nil},
		{"system.processes", "SELECT query FROM system.processes", nil},
		{"system.users", "SELECT * FROM system.users", nil},
		{"system.server_settings", "SELECT * FROM system.server_settings", nil},
		{"system.parts", "SELECT * FROM system.parts", nil},
		{"system quoted", "SELECT * FROM `system`.\"processes\"", nil},
		{"system by database", "SELECT * FROM processes", url.Values{"database": {"system"}}},
		{"system by parameter", "SELECT * FROM {t:Identifier}", url.Values{"param_t": {"system.processes"}}},
		{"system by two parameters", "SELECT * FROM {d:Identifier}.{t:Identifier}", url.Values{"param_d": {"system"}, "param_t": {"processes"}}},
		{"show processlist", "SHOW PROCESSLIST", nil},
		{"show grants", "SHOW GRANTS", nil},
		{"show access", "SHOW ACCESS", nil},
		{"introspection", "SELECT addressToLine(1)", nil},
		{"insert", "INSERT INTO guarded.raw VALUES (3, 'x')", nil},
		{"insert into the view", "INSERT INTO guarded.spend FORMAT CSV\n3", nil},
		{"insert select", "INSERT INTO guarded.raw SELECT 1, 'x'", nil},
		{"insert into function", "INSERT INTO FUNCTION file('/tmp/bridge-x', 'CSV', 'a Int8') VALUES (1)", nil},
		{"create", "CREATE TABLE guarded.x (a UInt8) ENGINE = Memory", nil},
		{"create temporary", "CREATE TEMPORARY TABLE x (a UInt8)", nil},
		{"drop", "DROP VIEW guarded.spend", nil},
		{"alter", "ALTER TABLE guarded.raw DELETE WHERE 1", nil},
		{"set", "SET max_execution_time = 100", nil},
		{"set role", "SET ROLE owner", nil},
		{"two statements", "SELECT 1; SET ROLE owner", nil},
		{"execute as", "EXECUTE AS default SELECT * FROM guarded.raw", nil},
		{"use", "USE system", nil},
		{"kill", "KILL QUERY WHERE 1", nil},
		{"system command", "SYSTEM RELOAD CONFIG", nil},
		{"outfile", "SELECT 1 INTO OUTFILE '/tmp/bridge-out'", nil},
		{"attach", "ATTACH TABLE guarded.raw", nil},
		{"backup", "BACKUP DATABASE guarded TO File('/tmp/bridge-backup')", nil},
		{"settings clause", "SELECT 1 SETTINGS max_execution_time = 100", nil},
		{"settings clause, readonly", "SELECT 1 SETTINGS readonly = 0", nil},
		{"raise memory", "SELECT 1", url.Values{"max_memory_usage": {"99999999999"}}},
		{"unlimited memory", "SELECT 1", url.Values{"max_memory_usage": {"0"}}},
		{"raise rows", "SELECT 1", url.Values{"max_result_rows": {"0"}}},
		{"raise threads", "SELECT 1", url.Values{"max_threads": {"64"}}},
		{"drop readonly", "SELECT 1", url.Values{"readonly": {"0"}}},
		{"introspection setting", "SELECT 1", url.Values{"allow_introspection_functions": {"1"}}},
		{"role parameter", "SELECT 1", url.Values{"role": {"owner"}}},
		{"comment trick", "/* x */ -- y\nINSERT INTO guarded.raw VALUES (1, 'x')", nil},
		{"parallel with", "CREATE TABLE guarded.y (a UInt8) ENGINE = Memory PARALLEL WITH CREATE TABLE guarded.z (a UInt8) ENGINE = Memory", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := grafana(t, c.params, c.sql)
			if got.status == 200 || strings.Contains(got.body, "hush") || strings.Contains(got.body, "root:") {
				t.Errorf("allowed: %d %.300q", got.status, got.body)
			}
			t.Logf("%d %.160s", got.status, got.body)
		})
	}
	if got := mustPost(t, nil, "SELECT count(), max(secret) FROM guarded.raw"); got != "2\thush\n" {
		t.Errorf("raw table changed: %q", got)
	}
}

// TestEngineRolesAlone checks the second line of defence: what the engine
// refuses even if the guard's allow-list missed it.
func TestEngineRolesAlone(t *testing.T) {
	guardedDatabase(t)
	conn, err := testServer.server.engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	x := &execution{conn: conn}
	if err := x.do("SET ROLE published"); err != nil {
		t.Fatal(err)
	}
	if err := x.do("SELECT * FROM guarded.spend"); err != nil {
		t.Error(err)
	}
	for _, sql := range []string{
		"SELECT * FROM guarded.raw", "SELECT * FROM view(SELECT * FROM guarded.raw)", "SELECT (SELECT max(secret) FROM guarded.raw)",
		"SELECT dictGet('guarded.dict', 'secret', toUInt64(1))", "SELECT * FROM merge('guarded', 'raw')", "SELECT 1 IN guarded.raw",
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "INSERT INTO guarded.raw SELECT 1, 'x'", "SELECT * FROM system.users",
	} {
		if err := x.do(sql); err == nil {
			t.Errorf("%s: allowed", sql)
		}
	}
}

// TestRestrictedAccountThroughDriver is what Grafana's datasource does: it uses
// clickhouse-go, whose deadline becomes max_execution_time.
func TestRestrictedAccountThroughDriver(t *testing.T) {
	guardedDatabase(t)
	conn := connect(t, func(o *clickhouse.Options) {
		o.Auth = clickhouse.Auth{Database: "guarded", Username: "grafana", Password: grafanaPassword}
		o.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	var sum uint64
	if err := conn.QueryRow(ctx, "SELECT sum(a) FROM spend WHERE a > ?", 0).Scan(&sum); err != nil || sum != 3 {
		t.Fatal(sum, err)
	}
	var ex *clickhouse.Exception
	if err := conn.QueryRow(ctx, "SELECT sum(a) FROM raw").Scan(&sum); !errors.As(err, &ex) || ex.Code != codeAccessDenied {
		t.Fatal(err)
	}
	if batch, err := conn.PrepareBatch(ctx, "INSERT INTO raw"); err == nil {
		t.Error("an insert was prepared", batch.Abort())
	}
}
