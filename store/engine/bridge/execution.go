package bridge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

const (
	// headBytes is how much of a body is looked at for the head of an INSERT.
	headBytes = 256 << 10
	// statementBytes is how long a statement without data may be; the engine's
	// own max_query_size applies as well.
	statementBytes = 16 << 20
	// copyBytes is how much of a body is handed to the engine at once.
	copyBytes = 512 << 10
	// bufferedBytes is how much of a result wait_end_of_query holds back; a
	// larger one is streamed from there on.
	bufferedBytes = 16 << 20
)

// execution is one request's way through the engine.
type execution struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	out    *response
	id     string

	query *query
	conn  *chdb.Conn
	user  string
	kind  string
	stats chdb.Stats
}

func (x *execution) run() error {
	s := x.server
	restricted, user, err := s.authenticate(x.r)
	if err != nil {
		return err
	}
	x.user = user
	switch x.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		return exceptionf(codeUnsupportedMethod, "method %s is not supported", headerSafe(x.r.Method))
	}
	if !s.begin() {
		return exceptionf(codeTooManyQueries, "the server is shutting down")
	}
	defer s.end()
	if x.query, err = parseQuery(x.r, x.id, restricted); err != nil {
		return err
	}
	x.out.query = x.query
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	if err := s.queries.enter(ctx); err != nil {
		return err
	}
	defer s.queries.leave()
	if x.conn, err = s.engine.Connect(); err != nil {
		return err
	}
	defer x.conn.Close()
	return x.statement(ctx)
}

// statement tells an INSERT with data from everything else.
func (x *execution) statement(ctx context.Context) error {
	body := x.body()
	if b := boundary(x.r); b != "" {
		rest, err := x.externalTables(body, b)
		if err != nil {
			return err
		}
		body = rest
	} else if x.r.Method == http.MethodPost {
		var err error
		if body, err = requestBody(x.r, x.query.decompress, body); err != nil {
			return err
		}
	}
	text := x.query.text
	if head, ok := splitInsert(text); ok {
		source := bufio.NewReaderSize(body, headBytes)
		if head.format != "" || !continues(source, head) {
			return x.insert(ctx, head, io.MultiReader(strings.NewReader(text[head.data:]), source))
		}
		body = source // the rest of the statement's text is in the body
	}
	if text != "" {
		text += "\n"
	}
	head, ok, rest, err := peekInsert(text, body)
	if err != nil {
		return err
	}
	if ok {
		return x.insert(ctx, head, rest)
	}
	sql, err := io.ReadAll(io.LimitReader(rest, statementBytes+1))
	if err != nil {
		return readFailure(err)
	}
	if len(sql) > statementBytes {
		return exceptionf(codeSyntax, "Syntax error: the statement is longer than %d bytes", statementBytes)
	}
	return x.selectOrRun(ctx, strings.TrimSpace(string(sql)))
}

// continues reports that a body goes on with the text of the INSERT head in
// the URL, which has neither FORMAT nor VALUES, rather than being its data.
func continues(body *bufio.Reader, head insertHead) bool {
	b, _ := body.Peek(64)
	t, ok := (&scanner{sql: string(b)}).next()
	if !ok {
		return false
	}
	for _, word := range []string{"format", "values", "select", "with", "settings", "from"} {
		if t.is(word) {
			return true
		}
	}
	return t.is("(") && !strings.Contains(head.sql, "(")
}

// peekInsert looks for the head of an INSERT at the beginning of prefix+body.
// rest is what follows the head, or everything.
func peekInsert(prefix string, body io.Reader) (head insertHead, ok bool, rest io.Reader, err error) {
	r := bufio.NewReaderSize(io.MultiReader(strings.NewReader(prefix), body), headBytes)
	b, err := r.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return head, false, nil, readFailure(err)
	}
	if head, ok = splitInsert(string(b)); ok {
		_, err = r.Discard(head.data)
		return head, true, r, err
	}
	return head, false, r, nil
}

// body extends the read deadline with every read, so that a client that
// stopped sending does not hold its place for ever.
func (x *execution) body() io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		_ = x.out.ctl.SetReadDeadline(time.Now().Add(x.server.config.IOTimeout))
		return x.r.Body.Read(p)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// prepare applies settings, database and role to the connection. They end with
// it. sql is checked first for the restricted account. The returned function
// must be called when the statement has ended.
func (x *execution) prepare(ctx context.Context, sql string) (ended func(), err error) {
	settings := x.query.settings
	tag := rand.Text() // by which a cancelled query is found and killed
	if x.query.restricted {
		x.query.database = cmp.Or(x.query.database, x.server.config.Database)
		if isSystemDatabase(x.query.database) {
			return nil, exceptionf(codeAccessDenied, "this account may not use the database system")
		}
		if settings, err = x.server.config.Limits.restrictedSettings(settings); err != nil {
			return nil, err
		}
	} else if x.query.readonly && x.query.setting("readonly") != "1" {
		settings = append(settings, chdb.Setting{Name: "readonly", Value: "2"})
	}
	if x.query.database != "" {
		if err := x.do("USE " + quoteName(x.query.database)); err != nil {
			return nil, err
		}
	}
	if x.query.restricted {
		if err := x.server.builtins.guard(x.conn, sql, x.query.params); err != nil {
			return nil, err
		}
		if err := x.do("SET ROLE " + publishedRole); err != nil {
			return nil, err
		}
	}
	comment := tag
	set := make([]string, 0, len(settings)+1)
	for _, s := range settings {
		if s.Name == "log_comment" {
			comment += " " + s.Value
			continue
		}
		set = append(set, s.Name+" = "+quoteString(s.Value))
	}
	set = append(set, "log_comment = "+quoteString(comment))
	if err := x.do("SET " + strings.Join(set, ", ")); err != nil {
		return nil, err
	}
	return x.server.killOn(ctx, tag), nil
}

func (x *execution) do(sql string) error {
	_, _, err := x.conn.Exec(chdb.Statement{SQL: sql, Format: "Null"})
	return err
}

// selectOrRun runs a statement that brings no data and streams its result.
func (x *execution) selectOrRun(ctx context.Context, sql string) error {
	x.kind = "query"
	if sql == "" {
		return exceptionf(codeSyntax, "Syntax error: empty query")
	}
	ended, err := x.prepare(ctx, sql)
	if err != nil {
		return err
	}
	defer ended()
	a, err := x.conn.Classify(sql)
	if err != nil {
		return err
	}
	if a.Statements > 1 {
		return exceptionf(codeSyntax, "Syntax error: multi-statements are not allowed")
	}
	st := chdb.Statement{SQL: sql, Format: x.query.format, Params: x.query.params}
	format := outputFormat(sql, x.query.format)
	var rows result
	if a.Class == chdb.ReadOnly {
		rows, err = x.conn.Query(st)
	}
	if a.Class != chdb.ReadOnly || isNotStreamable(err) {
		rows, err = x.conn.Whole(st)
	}
	if err != nil {
		return cancelled(ctx, err)
	}
	defer rows.Close()
	return cancelled(ctx, x.stream(rows, format))
}

// result is a result that arrives in chunks, or in one.
type result interface {
	Next() ([]byte, error)
	Stats() chdb.Stats
	Close() error
}

// isNotStreamable reports that the engine gives a statement's result only as a
// whole, as it does for SHOW and DESCRIBE; those are small.
func isNotStreamable(err error) bool {
	var e *chdb.Error
	return errors.As(err, &e) && e.Code == codeBadArguments && strings.HasPrefix(e.Message, "Streaming query is not supported")
}

// stream copies a result to the client. The first bytes decide the status.
func (x *execution) stream(rows result, format string) error {
	var held bytes.Buffer
	for {
		chunk, err := rows.Next()
		x.stats = rows.Stats()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		ended := err != nil
		if x.query.buffered && !ended && !x.out.started && held.Len()+len(chunk) <= bufferedBytes {
			held.Write(chunk)
			continue
		}
		if !x.out.started {
			if ended && held.Len() == 0 && len(chunk) == 0 {
				return x.empty(format)
			}
			if err := x.out.start(format, x.stats); err != nil {
				return err
			}
		}
		for _, b := range [][]byte{held.Bytes(), chunk} {
			if len(b) == 0 {
				continue
			}
			if _, err := x.out.out.Write(b); err != nil {
				return err
			}
		}
		held.Reset()
		if ended {
			return x.out.finish()
		}
	}
}

// empty answers a statement without a result.
func (x *execution) empty(format string) error {
	h := x.w.Header()
	h.Set("Content-Type", contentType(format))
	h.Set("X-ClickHouse-Format", format)
	setSummary(h, x.stats)
	x.w.WriteHeader(http.StatusOK)
	return nil
}

func cancelled(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return exceptionf(codeCancelled, "Query was cancelled")
	}
	return err
}

func readFailure(err error) error {
	var e *chdb.Error
	if errors.As(err, &e) {
		return err
	}
	return exceptionf(codeNetwork, "the request's body could not be read: it was cut off or is not encoded as it claims")
}
