package e2e

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"

	ledger "github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// TestEnginePort: the embedded ClickHouse is a ClickHouse to curl and to its
// own Go client, and holds Grafana's account to the published views.
func TestEnginePort(t *testing.T) {
	t.Parallel()
	s := serve(t)
	book, maker, want := prices(t), newCallMaker("port", 51), newTruth()
	calls := maker.batch(50)
	calls[0].Run = "run-1"
	for i := range calls {
		want.add(calls[i].key(), calls[i].sum(t, book))
	}
	post(t, calls, s)
	want.check(t, s)
	addr := s.serving(t)["clickhouse"]
	t.Run("formats", func(t *testing.T) { formats(t, owner(t, addr, s.dir)) })
	t.Run("clickhouse-go", func(t *testing.T) { goClient(t, owner(t, addr, s.dir)) })
	t.Run("published", func(t *testing.T) { published(t, grafana(t, addr, s.dir), len(calls)) })
	t.Run("refused", func(t *testing.T) { refused(t, grafana(t, addr, s.dir)) })
	t.Run("limits", func(t *testing.T) { limits(t, grafana(t, addr, s.dir)) })
	t.Run("strangers", func(t *testing.T) { strangers(t, addr) })
	want.check(t, s) // whatever was tried
	s.faults = true  // what was refused is logged
	s.stop(t)
}

func formats(t *testing.T, c clickHouse) {
	const sql = "SELECT toUInt8(number) AS n, concat('a,\"', toString(number)) AS text FROM system.numbers LIMIT 2 FORMAT "
	var answer struct {
		Meta []struct{ Name, Type string }
		Data []struct {
			N    int
			Text string
		}
		Rows int
	}
	if err := json.Unmarshal([]byte(c.must(t, sql+"JSON")), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Rows != 2 || answer.Meta[0].Type != "UInt8" || answer.Data[1].Text != `a,"1` || answer.Data[1].N != 1 {
		t.Errorf("JSON: %+v", answer)
	}
	records, err := csv.NewReader(strings.NewReader(c.must(t, sql+"CSVWithNames"))).ReadAll()
	if diff := cmp.Diff([][]string{{"n", "text"}, {"0", `a,"0`}, {"1", `a,"1`}}, records); diff != "" || err != nil {
		t.Errorf("CSV: %v\n%s", err, diff)
	}
	for _, format := range []string{"TSV", "TabSeparated"} {
		if got := c.must(t, sql+format); got != "0\ta,\"0\n1\ta,\"1\n" {
			t.Errorf("%s: %q", format, got)
		}
	}
	// As curl asks for it: the query in the URL, the account in headers.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.addr+"/?"+url.Values{"query": {"SELECT {n:UInt8} + 1"}, "param_n": {"41"}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-ClickHouse-User", c.user)
	req.Header.Set("X-ClickHouse-Key", c.password)
	req.Header.Set("X-ClickHouse-Format", "JSONCompactEachRow")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var row []int
	if err := json.NewDecoder(resp.Body).Decode(&row); err != nil || !cmp.Equal(row, []int{42}) {
		t.Errorf("a GET with a parameter: %v %v", row, err)
	}
}

// goClient follows the examples of clickhouse-go's README: connect, create,
// insert in a batch, query rows, scan a struct, bind parameters.
func goClient(t *testing.T, c clickHouse) {
	conn, err := clickhouse.Open(&clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{c.addr},
		Auth:        clickhouse.Auth{Database: "default", Username: c.user, Password: c.password},
		Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4},
		Settings:    clickhouse.Settings{"max_execution_time": 60},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := t.Context()
	if err := conn.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	err = conn.Exec(ctx, `CREATE TABLE example (Col1 UInt8, Col2 String, Col3 FixedString(3), Col4 UUID, Col5 Map(String, UInt8),
		Col6 Array(String), Col7 Tuple(String, UInt8, Array(Map(String, String))), Col8 DateTime) ENGINE = Memory`)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO example")
	if err != nil {
		t.Fatal(err)
	}
	const epoch = 1_700_000_000
	for i := range 1000 {
		err := batch.Append(uint8(42), "ClickHouse", "Inc", "417ddc5d-e556-4d27-95dd-a34d84e46a50", map[string]uint8{"key": 1},
			[]string{"Q", "W", "E"}, []any{"String Value", uint8(5), []map[string]string{{"key": "value"}}}, time.Unix(epoch+int64(i), 0))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Col1 uint8
		Col2 string
		Name string `ch:"name"`
	}
	if err := conn.Select(ctx, &rows, "SELECT Col1, Col2, Col6[2] AS name FROM example WHERE Col8 < @before ORDER BY Col8", clickhouse.Named("before", time.Unix(epoch+5, 0))); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 5 || rows[4].Col2 != "ClickHouse" || rows[4].Name != "W" {
		t.Errorf("%+v", rows)
	}
	var n uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM example WHERE Col1 = {value:UInt8}", clickhouse.Named("value", "42")).Scan(&n); err != nil || n != 1000 {
		t.Errorf("%d rows, %v", n, err)
	}
	err = conn.QueryRow(ctx, "SELECT throwIf(1, 'as asked')").Scan(&n)
	if e := (&clickhouse.Exception{}); !errors.As(err, &e) || e.Code != 395 {
		t.Errorf("an exception: %v", err)
	}
	db := clickhouse.OpenDB(&clickhouse.Options{
		Protocol: clickhouse.HTTP, Addr: []string{c.addr},
		Auth: clickhouse.Auth{Database: "default", Username: c.user, Password: c.password},
	})
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT count() FROM example").Scan(&n); err != nil || n != 1000 {
		t.Errorf("database/sql: %d rows, %v", n, err)
	}
	if err := conn.Exec(ctx, "DROP TABLE example"); err != nil {
		t.Error(err)
	}
}

func published(t *testing.T, c clickHouse, calls int) {
	for _, view := range ledger.Published() {
		c.must(t, "SELECT * FROM "+view+" LIMIT 3 FORMAT JSON")
		c.must(t, "SELECT count() FROM tatara_ledger."+view)
		c.must(t, "DESCRIBE TABLE "+view)
	}
	var answer struct{ Data []struct{ N int } }
	if err := json.Unmarshal([]byte(c.must(t, "SELECT toInt32(sum(requests)) AS n FROM spend FORMAT JSON")), &answer); err != nil || answer.Data[0].N != calls {
		t.Errorf("requests of spend: %+v, %v", answer, err)
	}
	for _, view := range []string{"spend_hourly", "spend", "tasks"} {
		if got := c.must(t, "SELECT sum(requests) FROM "+view); strings.TrimSpace(got) != "50" {
			t.Errorf("requests of %s: %s", view, got)
		}
	}
}

// refused are statements that Grafana's account may not run.
func refused(t *testing.T, c clickHouse) {
	tables := []string{
		"events", "samples", "ends", "links", "charges", "activity", "run_summaries", "marks", "heard", "spend_5m", "spend_1h", "chat_facts",
		"alert_facts", "outcome_facts", "annotation_facts", "health_samples",
	}
	var statements []string
	for _, table := range tables {
		statements = append(statements,
			"SELECT * FROM "+table, "SELECT count() FROM tatara_ledger."+table,
			"SELECT * FROM spend WHERE task IN (SELECT toString(bucket) FROM "+table+")")
	}
	for _, table := range []string{"users", "query_log", "processes", "named_collections", "server_settings", "disks", "macros", "clusters"} {
		statements = append(statements, "SELECT * FROM system."+table)
	}
	statements = append(statements,
		"INSERT INTO spend (task) VALUES ('x')", "INSERT INTO charges SELECT * FROM charges",
		"CREATE TABLE mine (x UInt8) ENGINE = Memory", "CREATE TABLE mine ENGINE = Memory AS SELECT 1", "CREATE VIEW mine AS SELECT 1",
		"CREATE TEMPORARY TABLE mine (x UInt8)", "CREATE FUNCTION f AS (x) -> x", "DROP VIEW spend", "DROP TABLE charges",
		"TRUNCATE TABLE charges", "ALTER TABLE charges DELETE WHERE 1", "OPTIMIZE TABLE charges FINAL", "RENAME TABLE charges TO c",
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "SELECT file('/etc/passwd')",
		"SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", "SELECT * FROM s3('http://127.0.0.1:1/b/k', 'CSV')",
		"SELECT * FROM remote('127.0.0.1:1', system.one)", "SELECT * FROM remoteSecure('127.0.0.1:1', system.one)",
		"SELECT * FROM mysql('127.0.0.1:1', 'd', 't', 'u', 'p')", "SELECT * FROM postgresql('127.0.0.1:1', 'd', 't', 'u', 'p')",
		"SELECT * FROM executable('id', 'TSV', 'x String')", "SELECT * FROM merge('tatara_ledger', '.*')",
		"SELECT * FROM cluster('default', system.one)", "SELECT * FROM input('x UInt8')",
		"SELECT * FROM spend INTO OUTFILE '/tmp/spend.tsv'", "SELECT * FROM view(SELECT * FROM charges)",
		"SYSTEM SHUTDOWN", "SYSTEM FLUSH LOGS", "KILL QUERY WHERE 1", "SET readonly = 0", "GRANT ALL ON *.* TO grafana",
		"SELECT 1 SETTINGS readonly = 0", "SELECT 1; DROP TABLE charges", "BACKUP TABLE charges TO File('/tmp/b')",
	)
	for _, sql := range statements {
		if status, answer := c.do(t, sql, nil); status < 400 || status >= 500 {
			t.Errorf("%s: %d %s", sql, status, tail(answer))
		}
	}
	for _, setting := range []string{"readonly=0", "allow_ddl=1", "max_memory_usage=0", "max_result_rows=0", "log_queries=0"} {
		params, err := url.ParseQuery(setting)
		if err != nil {
			t.Fatal(err)
		}
		// ClickHouse itself answers 500 where a bound is exceeded.
		if status, answer := c.do(t, "SELECT 1", params); status < 400 || !strings.Contains(answer, "DB::Exception") {
			t.Errorf("%s: %d %s", setting, status, tail(answer))
		}
	}
}

// limits: a query that would take too many rows or too much memory ends. The
// time of one is bounded, so a client that asks for more gets the bound.
func limits(t *testing.T, c clickHouse) {
	for what, sql := range map[string]string{
		"rows of a result": "SELECT number FROM system.numbers LIMIT 1000001 FORMAT Null",
		"rows to read":     "SELECT count() FROM (SELECT * FROM spend AS a, spend AS b, spend AS c, spend AS d, spend AS e, spend AS f) SETTINGS max_threads = 1",
		"memory":           "SELECT length(groupArray(a.task || b.task || c.task || d.task)) FROM spend AS a, spend AS b, spend AS c, spend AS d",
	} {
		params := url.Values{"max_execution_time": {"5"}}
		if status, answer := c.do(t, sql, params); status == http.StatusOK && !strings.Contains(answer, "DB::Exception") {
			t.Errorf("%s: %d %s", what, status, tail(answer))
		}
	}
	var answer struct {
		Data []struct{ V string }
	}
	status, text := c.do(t, "SELECT value AS v FROM system.settings WHERE name = 'max_execution_time' FORMAT JSON", url.Values{"max_execution_time": {"100000"}})
	if err := json.Unmarshal([]byte(text), &answer); status != http.StatusOK || err != nil || len(answer.Data) != 1 || answer.Data[0].V != "30" {
		t.Errorf("the bound of time: %d %s", status, text)
	}
}

func strangers(t *testing.T, addr string) {
	for _, c := range []clickHouse{{addr, "ledger", "wrong"}, {addr, "grafana", ""}, {addr, "default", ""}, {addr, "", ""}} {
		if status, answer := c.do(t, "SELECT 1", nil); status != http.StatusUnauthorized && status != http.StatusForbidden {
			t.Errorf("%q with a wrong password: %d %s", c.user, status, answer)
		}
	}
}
