package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/api"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
)

// statement is one that the service sends.
type statement struct {
	sql  string
	args []any
}

// recorder is a tracer of pgx that keeps what it sees.
type recorder struct{ seen []statement }

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.seen = append(r.seen, statement{q.SQL, q.Args})
	return ctx
}

func (*recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// statements are those that the service sends for the operation's example. They
// are recorded from its own code, here in the bench, so that what pgbench sends
// is never anything else.
func (b *bench) statements(ctx context.Context, op *operation) ([]statement, error) {
	if err := b.reset(ctx, op); err != nil {
		return nil, err
	}
	log, registry, seen := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), &recorder{}
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.Tracer = b.postgres.DSN(), seen
	s, err := postgres.Open(ctx, cfg, log, registry)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Ping(ctx); err != nil {
		return nil, err
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(op.request(nil, example()))))
	if err != nil {
		return nil, err
	}
	seen.seen = nil
	w := httptest.NewRecorder()
	api.Routes(api.Config{Handoffs: s, Rooms: s, Registry: registry, Log: log}).ServeHTTP(w, r.WithContext(ctx))
	if w.Code >= http.StatusBadRequest || !bytes.Contains(w.Body.Bytes(), []byte(op.answer)) {
		return nil, fmt.Errorf("the example was answered with %d: %s", w.Code, w.Body)
	}
	return seen.seen, nil
}
