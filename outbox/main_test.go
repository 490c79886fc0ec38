package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/store"
	ledger "github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
	chat "github.com/szymonrychu/tatara-ledger/store/postgres"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, ledger.Published())
	os.Exit(engines.Run(m))
}

// fixture is an outbox and a ledger of a test's own.
type fixture struct {
	outbox *chat.Store
	ledger *ledger.Store
	conn   *pgx.Conn // to the outbox's database
	log    *log

	enqueued int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	address := engines.Postgres(t)
	cfg := chat.DefaultConfig()
	cfg.URL = address
	f := &fixture{log: &log{}}
	var err error
	if f.outbox, err = chat.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.outbox.Close)
	if _, err := f.outbox.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.conn, err = pgx.Connect(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.conn.Close(context.Background()) })
	f.ledger = openLedger(t, engines.ClickHouse(t).Addr)
	if _, err := f.ledger.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func openLedger(t *testing.T, addr string) *ledger.Store {
	t.Helper()
	a := engines.ClickHouse(t)
	s, err := ledger.Open(ledger.Config{Addresses: []string{addr}, Database: engines.Database(t), User: a.User, Password: a.Password.Reveal()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// drainer copies in small batches.
func (f *fixture) drainer(from Source[store.Event], to appender) *Drainer[store.Event] {
	cfg := DefaultConfig()
	cfg.Batch, cfg.Every, cfg.RetryMax = 10, 5*time.Millisecond, 20*time.Millisecond
	return NewDrainer(cfg, "chat", from, Sink[store.Event]{Name: clickhouse, Take: to.AppendChatEvents}, slog.New(slog.NewTextHandler(f.log, nil)), prometheus.NewRegistry())
}

// enqueue puts n events into the outbox, an hour ago. Their sizes count on.
func (f *fixture) enqueue(t *testing.T, n int) {
	t.Helper()
	_, err := f.conn.Exec(t.Context(), `
		INSERT INTO chat_outbox (event_id, at, action, actor, request_id, project, handoff_key, revision, bytes)
		SELECT gen_random_uuid(), now() - interval '1 hour', 'handoff_written', 'agent', 'run-1', 'demo', 'k', i, i
		FROM generate_series($1::int + 1, $1::int + $2) AS i`, f.enqueued, n)
	f.enqueued += n
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) waiting(t *testing.T) int {
	t.Helper()
	var n int
	if err := f.conn.QueryRow(t.Context(), "SELECT count(*) FROM chat_outbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// holds fails the test unless the ledger has the n events of enqueue once, and
// the outbox has none.
func (f *fixture) holds(t *testing.T, n int) {
	t.Helper()
	s, err := f.ledger.HandoffStats(t.Context(), ledger.HandoffStatsQuery{From: time.Now().Add(-day), To: time.Now().Add(day), Now: time.Now(), StaleAfter: day, Keys: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.ReadAfterWrite.Writes; got != uint64(n) || s.Size.Max != uint64(n) {
		t.Errorf("the ledger has %d events, the largest of %d bytes; want %d", got, s.Size.Max, n)
	}
	if left := f.waiting(t); left != 0 {
		t.Errorf("%d events are left", left)
	}
}

const day = 24 * time.Hour

// log collects what is logged.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(of string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), of)
}

const clickhouse = "clickhouse"

// appender is the ledger, or stands for it.
type appender interface {
	AppendChatEvents(ctx context.Context, events []store.Event) error
}

// sink does something before or after the ledger takes events.
type sink struct {
	appender
	before, after func(ctx context.Context) error
}

func (s *sink) AppendChatEvents(ctx context.Context, events []store.Event) error {
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return err
		}
	}
	if err := s.appender.AppendChatEvents(ctx, events); err != nil {
		return err
	}
	if s.after != nil {
		return s.after(ctx)
	}
	return nil
}

func counted(t *testing.T, d *Drainer[store.Event], copies, refusals, repeats, postgresFailures, clickhouseFailures int) {
	t.Helper()
	got := fmt.Sprint(testutil.ToFloat64(d.metrics.events.WithLabelValues(copied)), testutil.ToFloat64(d.metrics.events.WithLabelValues(refused)),
		testutil.ToFloat64(d.metrics.events.WithLabelValues(repeated)),
		testutil.ToFloat64(d.metrics.failures.WithLabelValues(postgres)), testutil.ToFloat64(d.metrics.failures.WithLabelValues(clickhouse)))
	if want := fmt.Sprint(copies, refusals, repeats, postgresFailures, clickhouseFailures); got != want {
		t.Errorf("copied, refused, repeated, failures of Postgres and ClickHouse: %s, want %s", got, want)
	}
}

// until waits for something to become true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 2000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s did not happen", what)
}
