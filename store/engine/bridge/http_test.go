package bridge

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/google/go-cmp/cmp"
)

func TestPlainHTTP(t *testing.T) {
	db := newDatabase(t)
	for _, c := range []struct {
		name   string
		method string
		params url.Values
		body   string
		status int
		want   string
	}{
		{"ping query in URL by GET", "GET", url.Values{"query": {"SELECT 1"}}, "", 200, "1\n"},
		{"query in body", "POST", nil, "SELECT 1, 'a'", 200, "1\ta\n"},
		{"trailing semicolon", "POST", nil, "SELECT 1;\n", 200, "1\n"},
		{"text split between URL and body", "POST", url.Values{"query": {"SELECT 1"}}, "+ 1", 200, "2\n"},
		{"format clause", "POST", nil, "SELECT 1 AS x FORMAT JSONEachRow", 200, "{\"x\":1}\n"},
		{"default format", "POST", url.Values{"default_format": {"CSVWithNames"}}, "SELECT 1 AS x", 200, "\"x\"\n1\n"},
		{"parameter", "POST", url.Values{"param_p": {"a;'b\\t"}}, "SELECT {p:String} FORMAT RawBLOB", 200, "a;'b\t"},
		{"setting", "POST", url.Values{"max_threads": {"3"}}, "SELECT getSetting('max_threads')", 200, "3\n"},
		{"database", "POST", url.Values{"database": {db}}, "SELECT currentDatabase()", 200, db + "\n"},
		{"NUL byte", "POST", nil, "SELECT 'a\x00b' FORMAT RawBLOB", 200, "a\x00b"},
		{"semicolon in string", "POST", nil, "SELECT 'a;b' FORMAT RawBLOB", 200, "a;b"},
		{"no rows", "POST", nil, "SELECT 1 WHERE 0", 200, ""},
		{"DDL", "POST", url.Values{"database": {db}}, "CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a", 200, ""},
		{"GET may not write", "GET", url.Values{"query": {"CREATE TABLE " + db + ".u (a UInt8) ENGINE = Memory"}}, "", 403, "Code: 164."},
		{"GET may not insert", "GET", url.Values{"query": {"INSERT INTO " + db + ".t VALUES (1)"}}, "", 403, "Code: 164."},
		{"unknown table", "POST", nil, "SELECT * FROM nowhere", 404, "Code: 60."},
		{"unknown database", "POST", url.Values{"database": {"nowhere"}}, "SELECT 1", 404, "Code: 81."},
		{"unknown setting", "POST", url.Values{"no_such_setting": {"1"}}, "SELECT 1", 404, "Code: 115."},
		{"injection by a setting's name", "POST", url.Values{"a = 1, b": {"1"}}, "SELECT 1", 400, "Code: 36."},
		{"injection by a setting's value", "POST", url.Values{"log_comment": {"', max_threads = '7\\"}}, "SELECT getSetting('max_threads') = 7", 200, "0\n"},
		{"syntax", "POST", nil, "SELEKT 1", 400, "Code: 62."},
		{"empty", "POST", nil, " ", 400, "Code: 62."},
		{"two statements", "POST", nil, "SELECT 1; SELECT 2", 400, "Code: 62."},
		{"runtime error", "POST", nil, "SELECT throwIf(1, 'boom')", 500, "Code: 395."},
		{"timeout", "POST", url.Values{"max_execution_time": {"1"}}, "SELECT sum(sleepEachRow(0.5)) FROM numbers(20) SETTINGS max_block_size = 1", 408, "Code: 159."},
		{"session", "POST", url.Values{"session_id": {"x"}}, "SELECT 1", 501, "Code: 48."},
		{"method", "PUT", nil, "SELECT 1", 405, "Code: 1."},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := do(t, request{method: c.method, params: c.params, body: strings.NewReader(c.body)})
			if got.status != c.status || (c.status == 200 && got.body != c.want) || !strings.HasPrefix(got.body, c.want) {
				t.Fatalf("status %d, body %q; want %d, %q", got.status, got.body, c.status, c.want)
			}
			if c.status != 200 {
				code := strings.TrimSuffix(strings.TrimPrefix(c.want, "Code: "), ".")
				if diff := cmp.Diff(code, got.header.Get("X-ClickHouse-Exception-Code")); diff != "" {
					t.Error(diff)
				}
				if !strings.Contains(got.body, ") (version 26.") {
					t.Errorf("body %q lacks the error's name or the version", got.body)
				}
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	got := post(t, url.Values{"query_id": {"my-id"}}, "SELECT 1 FORMAT JSON")
	for name, want := range map[string]string{
		"X-ClickHouse-Query-Id": "my-id", "X-ClickHouse-Format": "JSON", "Content-Type": "application/json; charset=UTF-8",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	for _, name := range []string{"X-ClickHouse-Timezone", "X-ClickHouse-Server-Display-Name", "X-ClickHouse-Summary"} {
		if got.header.Get(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestPing(t *testing.T) {
	needEngine(t)
	for _, path := range []string{"/ping", "/", "/replicas_status"} {
		resp, err := http.Get(testServer.url + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || string(b) != "Ok.\n" {
			t.Errorf("%s: %d %q", path, resp.StatusCode, b)
		}
	}
}

func TestAuthentication(t *testing.T) {
	for _, c := range []struct {
		name   string
		q      request
		status int
	}{
		{"none", request{user: "-"}, 403},
		{"wrong password", request{user: "default", pass: "x"}, 403},
		{"unknown user", request{user: "eve", pass: ownerPassword}, 403},
		{"other's password", request{user: "default", pass: grafanaPassword}, 403},
		{"basic", request{user: "default", pass: ownerPassword}, 200},
		{"headers", request{user: "-", header: http.Header{"X-Clickhouse-User": {"grafana"}, "X-Clickhouse-Key": {grafanaPassword}}}, 200},
		{"parameters", request{user: "-", params: url.Values{"user": {"default"}, "password": {ownerPassword}}}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.body = strings.NewReader("SELECT 1")
			got := do(t, c.q)
			if got.status != c.status {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			if c.status == 403 && (got.header.Get("X-ClickHouse-Exception-Code") != "516" || strings.Contains(got.body, "secret")) {
				t.Errorf("body %q", got.body)
			}
		})
	}
}

func TestInsertForms(t *testing.T) {
	db := newDatabase(t)
	inDB := func(kv ...string) url.Values {
		v := url.Values{"database": {db}}
		for i := 0; i < len(kv); i += 2 {
			v.Set(kv[i], kv[i+1])
		}
		return v
	}
	for _, c := range []struct {
		name   string
		params url.Values
		body   string
		want   string // of a and hex(b), ordered
	}{
		{"format in body", inDB(), "INSERT INTO t FORMAT JSONEachRow\n{\"a\":1,\"b\":\"x;y\"}\n{\"a\":2,\"b\":\"\"}", "1\t783B79\n2\t\n"},
		{"data in body", inDB("query", "INSERT INTO t (b, a) FORMAT TSV"), "x;\\0y\t1\n", "1\t783B0079\n"},
		{"values", inDB(), "INSERT INTO t VALUES (1, 'a;b'), (2, 'c\\'\\0d');", "1\t613B62\n2\t63270064\n"},
		{"values with expressions", inDB(), "INSERT INTO t (a, b) VALUES (1 + 1, concat('a', ';'))", "2\t613B\n"},
		{"values split", inDB("query", "INSERT INTO t VALUES"), "(1, 'q')", "1\t71\n"},
		{"values bound", inDB("param_a", "7", "param_b", "x;y"), "INSERT INTO t VALUES ({a:UInt32}, {b:String})", "7\t783B79\n"},
		{"no format", inDB("query", "INSERT INTO t (a, b)"), "(1, 'q')", "1\t71\n"},
		{"default format", inDB("query", "INSERT INTO t", "default_format", "CSV"), "1,\"a;b\"\n", "1\t613B62\n"},
		{"select", inDB(), "INSERT INTO t SELECT number, 'a;b' FROM numbers(2)", "0\t613B62\n1\t613B62\n"},
		{"NUL in CSV", inDB("query", "INSERT INTO t FORMAT CSV"), "1,\"a\x00;\nb\"\n", "1\t61003B0A62\n"},
		{"settings", inDB(), "INSERT INTO t SETTINGS async_insert = 0 FORMAT CSV\n1,x", "1\t78\n"},
		{"comment and odd names", inDB(), "/* ; FORMAT X */ INSERT INTO `t` (`a`, `b`) -- VALUES\nFORMAT CSV\r\n1,x", "1\t78\n"},
		{"no data", inDB("query", "INSERT INTO t FORMAT CSV"), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustPost(t, inDB(), "CREATE OR REPLACE TABLE t (a UInt32, b String) ENGINE = MergeTree ORDER BY a")
			mustPost(t, c.params, c.body)
			got := mustPost(t, inDB(), "SELECT a, hex(b) FROM t ORDER BY a")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, c := range []struct{ name, body, want string }{
		{"unparsable data", "INSERT INTO t FORMAT CSV\nabc,x", "Code: 27."},
		{"unknown column", "INSERT INTO t (zz) FORMAT CSV\n1", "Code: 16."},
		{"unknown table", "INSERT INTO nowhere FORMAT CSV\n1", "Code: 60."},
		{"unknown format", "INSERT INTO t FORMAT Nope\n1", "Code: 73."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := post(t, inDB(), c.body); got.status == 200 || !strings.HasPrefix(got.body, c.want) {
				t.Errorf("status %d, body %q", got.status, got.body)
			}
		})
	}
}

func TestCompression(t *testing.T) {
	db := newDatabase(t)
	mustPost(t, nil, "CREATE TABLE "+db+".t (a UInt32) ENGINE = MergeTree ORDER BY a")

	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(zw, strings.Repeat("7\n", 1000))
	_ = zw.Close()
	insert := url.Values{"query": {"INSERT INTO " + db + ".t FORMAT CSV"}}
	if got := do(t, request{params: insert, header: http.Header{"Content-Encoding": {"gzip"}}, body: &zipped}); got.status != 200 {
		t.Fatal(got.body)
	}
	w := compress.NewWriter(compress.LevelZero, compress.LZ4)
	var blocks bytes.Buffer
	for range 3 {
		if err := w.Compress([]byte(strings.Repeat("8\n", 1000))); err != nil {
			t.Fatal(err)
		}
		blocks.Write(w.Data)
	}
	insert.Set("decompress", "1")
	if got := do(t, request{params: insert, body: bytes.NewReader(blocks.Bytes())}); got.status != 200 {
		t.Fatal(got.body)
	}
	if got := do(t, request{params: insert, body: bytes.NewReader(blocks.Bytes()[:blocks.Len()-5])}); got.status == 200 {
		t.Fatal("a truncated body was accepted")
	}
	if got := mustPost(t, nil, "SELECT a, count() FROM "+db+".t GROUP BY a ORDER BY a"); got != "7\t1000\n8\t3000\n" {
		t.Fatalf("%q", got)
	}

	const wide = "SELECT number FROM numbers(300000) FORMAT TSV"
	plain := mustPost(t, nil, wide)
	got := do(t, request{params: url.Values{"enable_http_compression": {"1"}}, header: http.Header{"Accept-Encoding": {"gzip"}}, body: strings.NewReader(wide)})
	zr, err := gzip.NewReader(strings.NewReader(got.body))
	if err != nil {
		t.Fatal(err, got.header)
	}
	if b, err := io.ReadAll(zr); err != nil || string(b) != plain {
		t.Errorf("gzip: %d bytes, %v; want %d", len(b), err, len(plain))
	}
	for _, method := range []string{"LZ4", "ZSTD"} {
		got = post(t, url.Values{"compress": {"1"}, "network_compression_method": {method}}, wide)
		if b, err := io.ReadAll(compress.NewReader(strings.NewReader(got.body))); string(b) != plain {
			t.Errorf("%s: %d bytes, %v; want %d", method, len(b), err, len(plain))
		}
	}
}

func TestFormats(t *testing.T) {
	for format, prefix := range map[string]string{
		"JSON": "{\n\t\"meta\"", "CSV": "0,\"a\"\n", "TSV": "0\ta\n", "Parquet": "PAR1", "JSONCompact": "{\n", "XML": "<?xml", "Arrow": "ARROW1", "Pretty": "",
	} {
		got := post(t, url.Values{"default_format": {format}}, "SELECT number AS n, 'a' AS s FROM numbers(3)")
		if got.status != 200 || !strings.HasPrefix(got.body, prefix) || len(got.body) < 5 {
			t.Errorf("%s: %d %.60q", format, got.status, got.body)
		}
	}
	// What the engine writes it reads back.
	db := newDatabase(t)
	mustPost(t, nil, "CREATE TABLE "+db+".t (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
	parquet := mustPost(t, nil, "SELECT number AS n, repeat(char(0, 59), 3) AS s FROM numbers(1000) FORMAT Parquet")
	mustPost(t, url.Values{"query": {"INSERT INTO " + db + ".t FORMAT Parquet"}}, parquet)
	if got := mustPost(t, nil, "SELECT count(), any(hex(s)) FROM "+db+".t"); got != "1000\t003B003B003B\n" {
		t.Errorf("%q", got)
	}
}

func TestMidStreamException(t *testing.T) {
	const sql = "SELECT throwIf(number = 900000, 'boom') FROM numbers(1000000) SETTINGS max_block_size = 10000, max_threads = 1"
	got := post(t, nil, sql)
	if got.status != 200 || !strings.Contains(got.body, "\r\n__exception__\r\n"+got.header.Get("X-ClickHouse-Exception-Tag")+"\r\nCode: 395.") {
		t.Fatalf("status %d, end %q", got.status, got.body[max(0, len(got.body)-300):])
	}
	// wait_end_of_query holds the result back, so that the status is right.
	if got = post(t, url.Values{"wait_end_of_query": {"1"}}, sql); got.status != 500 {
		t.Fatalf("status %d", got.status)
	}
}

// TestErrorDuringUpload makes sure that the reason reaches a client that is
// still sending.
func TestErrorDuringUpload(t *testing.T) {
	got := do(t, request{params: url.Values{"query": {"INSERT INTO nowhere FORMAT CSV"}}, body: bytes.NewReader(make([]byte, 32<<20))})
	if got.status != 404 || !strings.HasPrefix(got.body, "Code: 60.") {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
}
