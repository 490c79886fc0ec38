package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// Server is the http.Handler over one engine. Safe for concurrent use.
type Server struct {
	config   Config
	engine   *chdb.Engine
	queries  *admission
	log      *slog.Logger
	version  string
	timezone string
	host     string
	builtins *builtins

	stop context.CancelFunc // cancels every running query
	life context.Context

	mu       sync.Mutex
	running  int
	stopping bool
	idle     chan struct{} // closed when stopping and nothing runs
}

// begin counts a request in, unless the server is stopping.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.running++
	return true
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.stopping && s.running == 0 {
		close(s.idle)
	}
}

// refuse makes every further request fail; running ones go on.
func (s *Server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return
	}
	s.stopping = true
	if s.running == 0 {
		close(s.idle)
	}
}

// New starts the engine. Close must be called. A process can have one Server.
func New(config Config) (*Server, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("validating the bridge's configuration: %w", err)
	}
	access, err := writeAccess(config)
	if err != nil {
		return nil, err
	}
	engine, err := chdb.Open(config.LibraryPath, config.DataPath, chdb.Setting{Name: "config-file", Value: access})
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, engine: engine, queries: newAdmission(config.MaxQueries, config.QueueTimeout), log: config.Log, idle: make(chan struct{})}
	s.life, s.stop = context.WithCancel(context.Background())
	if err := s.identify(); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return s, nil
}

// identify reads what response headers say about the server, and makes sure
// that the account separation works before anything is served.
func (s *Server) identify() error {
	conn, err := s.engine.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.host, err = os.Hostname(); err != nil {
		s.host = "localhost"
	}
	for _, q := range []struct {
		sql string
		out *string
	}{{"SELECT version()", &s.version}, {"SELECT timezone()", &s.timezone}} {
		b, _, err := conn.Exec(chdb.Statement{SQL: q.sql, Format: "RowBinary"})
		if err != nil || len(b) < 2 {
			return fmt.Errorf("asking the engine %s: %w", q.sql, err)
		}
		*q.out = string(b[1:]) // a length of one byte precedes it
	}
	if s.builtins, err = readBuiltins(conn); err != nil {
		return err
	}
	if _, _, err := conn.Exec(chdb.Statement{SQL: "SET ROLE " + publishedRole, Format: "Null"}); err != nil {
		return fmt.Errorf("giving up the owner role: %w", err)
	}
	_, _, err = conn.Exec(chdb.Statement{SQL: "CREATE DATABASE bridge_probe", Format: "Null"})
	var e *chdb.Error
	if !errors.As(err, &e) || e.Code != codeAccessDenied {
		return errors.New("the engine does not enforce roles: refusing to serve")
	}
	return nil
}

// killPatience is how long a killed query may take to end: KILL is heeded
// between blocks.
const killPatience = 15 * time.Second

// Close stops taking requests, waits for running ones until ctx ends, kills
// the rest, and stops the engine, so that its data is on disk. If a query
// heeds no kill the engine is left running and an error returned: what was
// acknowledged is safe all the same.
func (s *Server) Close(ctx context.Context) error {
	s.refuse()
	select {
	case <-s.idle:
	case <-ctx.Done():
	}
	s.stop()
	timer := time.NewTimer(killPatience)
	defer timer.Stop()
	select {
	case <-s.idle:
		return s.engine.Close()
	case <-timer.C:
		return errors.New("a query did not end when it was killed")
	}
}

// ServeHTTP is ClickHouse's HTTP interface.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-ClickHouse-Server-Display-Name", s.host)
	switch r.URL.Path {
	case "/ping", "/replicas_status":
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		_, _ = w.Write([]byte("Ok.\n"))
		return
	case "/", "/query":
	default:
		http.Error(w, "There is no handle "+r.URL.EscapedPath(), http.StatusNotFound)
		return
	}
	if r.URL.RawQuery == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		_, _ = w.Write([]byte("Ok.\n"))
		return
	}
	s.serveQuery(w, r)
}

func (s *Server) serveQuery(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	id := r.URL.Query().Get("query_id")
	if id == "" {
		id = rand.Text()
	}
	h := w.Header()
	h.Set("X-ClickHouse-Query-Id", headerSafe(id))
	h.Set("X-ClickHouse-Timezone", s.timezone)
	x := &execution{server: s, w: w, r: r, id: id}
	x.out = &response{w: w, ctl: http.NewResponseController(w), timeout: s.config.IOTimeout, accept: r.Header.Get("Accept-Encoding")}
	err := x.run()
	code, level := 0, slog.LevelDebug
	if err != nil {
		e := s.fail(x, err)
		code, level = e.Code, logLevel(e)
	}
	s.log.LogAttrs(r.Context(), level, "query served", slog.String("query_id", id), slog.String("user", x.user),
		slog.String("kind", x.kind), slog.Int("code", code), slog.Int64("duration_ms", time.Since(started).Milliseconds()),
		slog.Uint64("read_rows", x.stats.ReadRows), slog.Uint64("written_rows", x.stats.WrittenRows), slog.Int64("bytes", x.out.bytes))
	if err != nil && x.out.started {
		// The status was 200: only a broken transfer tells every client.
		panic(http.ErrAbortHandler)
	}
}

// fail reports err to the client: with a status if nothing was sent yet, else
// in the body, framed as ClickHouse does.
func (s *Server) fail(x *execution, err error) *chdb.Error {
	e := asException(err)
	if e.Code == codeUnknown {
		s.log.Error("query failed inside the bridge", slog.String("query_id", x.id), slog.Any("error", err))
	}
	text := e.Error() + " (version " + s.version + " (official build))\n"
	if x.out.started {
		block := "\r\n__exception__\r\n" + x.out.tag + "\r\n" + text + fmt.Sprintf("%d %s", len(text), x.out.tag) + "\r\n__exception__\r\n"
		x.out.abort(block)
		return e
	}
	h := x.w.Header()
	h.Set("X-ClickHouse-Exception-Code", fmt.Sprint(e.Code))
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Set("Connection", "close")
	x.discard()
	x.w.WriteHeader(httpStatus(e))
	_, _ = x.out.Write([]byte(text))
	return e
}

// logLevel is that of a query that failed. A client that asks for what is not
// there, as migration tools do to find out, is no concern of an operator.
func logLevel(e *chdb.Error) slog.Level {
	if httpStatus(e) < http.StatusInternalServerError {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// headerSafe drops what may not be in a header.
func headerSafe(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] < ' ' || b[i] > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
