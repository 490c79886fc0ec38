package bridge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

const (
	ownerPassword   = "owner-secret"
	grafanaPassword = "grafana-secret"
)

// testServer is the bridge of this test process; the engine can start only
// once in a process, so every test shares it and uses a database of its own.
var testServer struct {
	url    string
	server *Server
	skip   string
}

func TestMain(m *testing.M) {
	if os.Getenv("BRIDGE_TEST_CHILD") != "" {
		os.Exit(childMain())
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	lib, err := chdb.Locate()
	if err != nil {
		testServer.skip = err.Error()
		if os.Getenv("CI") == "true" {
			fmt.Fprintln(os.Stderr, "the ClickHouse engine is required when CI=true:", err)
			return 1
		}
		fmt.Fprintln(os.Stderr, "SKIPPING EVERY TEST OF THE EMBEDDED CLICKHOUSE:", err)
		return m.Run()
	}
	data, err := os.MkdirTemp("", "bridge")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(data)
	server, err := New(testConfig(lib, data))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	web := httptest.NewServer(server)
	testServer.url, testServer.server = web.URL, server
	code := m.Run()
	web.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := server.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func testConfig(lib, data string) Config {
	level := slog.LevelError
	if os.Getenv("BRIDGE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return Config{
		LibraryPath: lib, DataPath: data,
		Owner:      Account{"default", ownerPassword},
		Restricted: Account{"grafana", grafanaPassword},
		Published:  []View{{"guarded", "spend"}, {"guarded", "odd `name"}},
		MaxQueries: 8, QueueTimeout: 2 * time.Second,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
}

func needEngine(t testing.TB) {
	t.Helper()
	if testServer.skip != "" {
		t.Skip(testServer.skip)
	}
}

// newDatabase creates a database of the test's own.
func newDatabase(t testing.TB) string {
	t.Helper()
	needEngine(t)
	name := strings.Map(func(r rune) rune {
		if isWordByte(byte(r)) && r < 0x80 {
			return r
		}
		return '_'
	}, "t_"+t.Name())
	mustPost(t, nil, "CREATE DATABASE "+name)
	return name
}

// connect opens clickhouse-go's native API over HTTP.
func connect(t testing.TB, change func(*clickhouse.Options)) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(options(t, change))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func options(t testing.TB, change func(*clickhouse.Options)) *clickhouse.Options {
	t.Helper()
	needEngine(t)
	u, err := url.Parse(testServer.url)
	if err != nil {
		t.Fatal(err)
	}
	o := &clickhouse.Options{
		Addr: []string{u.Host}, Protocol: clickhouse.HTTP,
		Auth: clickhouse.Auth{Database: "default", Username: "default", Password: ownerPassword},
	}
	if change != nil {
		change(o)
	}
	return o
}

type reply struct {
	status int
	header http.Header
	body   string
}

type request struct {
	method string
	params url.Values
	header http.Header
	user   string
	pass   string
	body   io.Reader
}

func do(t testing.TB, q request) reply {
	t.Helper()
	needEngine(t)
	if q.method == "" {
		q.method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(t.Context(), q.method, testServer.url+"/?"+q.params.Encode(), q.body)
	if err != nil {
		t.Fatal(err)
	}
	if q.header != nil {
		r.Header = q.header
	}
	if q.user == "" {
		q.user, q.pass = "default", ownerPassword
	}
	if q.user != "-" {
		r.SetBasicAuth(q.user, q.pass)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(resp.Body)
	return reply{resp.StatusCode, resp.Header, body.String()}
}

func post(t testing.TB, params url.Values, body string) reply {
	t.Helper()
	return do(t, request{params: params, body: strings.NewReader(body)})
}

func mustPost(t testing.TB, params url.Values, body string) string {
	t.Helper()
	got := post(t, params, body)
	if got.status != http.StatusOK {
		t.Fatalf("%.100s: status %d: %s", body, got.status, got.body)
	}
	return got.body
}

// grafana posts as the restricted account.
func grafana(t testing.TB, params url.Values, body string) reply {
	t.Helper()
	return do(t, request{params: params, body: strings.NewReader(body), user: "grafana", pass: grafanaPassword})
}
