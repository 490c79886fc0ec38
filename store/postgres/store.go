package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Store keeps handoffs and rooms. It is safe for concurrent use.
type Store struct {
	cfg     Config
	pool    *pgxpool.Pool
	hub     *hub
	reads   *reads
	closed  atomic.Bool
	log     *slog.Logger
	metrics *metrics

	searches       chan struct{} // holds one for each search under way
	searchPatience time.Duration
}

// querier is a pool or a transaction.
type querier interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Open returns a store. It connects when it is first used, so that a service
// can start while Postgres is away. The tables are made by [Store.Migrate].
func Open(ctx context.Context, cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Store, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the address of Postgres: %w", redact(err, cfg.URL))
	}
	if cfg.Password != "" {
		pc.ConnConfig.Password = cfg.Password
	}
	pc.MaxConns = int32(cfg.MaxConns)
	// A connection that died unnoticed while it was idle costs a request this,
	// not all of its time.
	pc.PingTimeout = 2 * time.Second
	pc.AfterConnect = setTypes
	pc.ConnConfig.Tracer = cfg.Tracer
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("opening Postgres: %w", err)
	}
	log = log.With("component", "postgres_store")
	m := newMetrics(reg, pool)
	return &Store{
		cfg: cfg, pool: pool, log: log, metrics: m,
		hub:   newHub(pool, log),
		reads: newReads(pool, m, log),

		searches: make(chan struct{}, searchesAtOnce), searchPatience: searchPatience,
	}, nil
}

// setTypes makes a connection return times in UTC, not in the machine's zone,
// and pass uuids on as they are.
func setTypes(_ context.Context, conn *pgx.Conn) error {
	m := conn.TypeMap()
	m.RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
	m.RegisterType(&pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}})
	return nil
}

// redact hides an address that may hold a password.
func redact(err error, address string) error {
	if u, e := url.Parse(address); e == nil && u.User != nil {
		return fmt.Errorf("%s is no connection URL", u.Redacted())
	}
	return err
}

// Run carries news between replicas and keeps the notes of reads, until ctx
// ends. Without it, long polls wait for their whole time.
func (s *Store) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.hub.listen(ctx) })
	g.Go(func() error { return s.hub.announce(ctx) })
	g.Go(func() error { return s.reads.run(ctx) })
	return g.Wait()
}

// Ping reports whether Postgres answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reaching Postgres: %w", err)
	}
	return nil
}

// Close closes the connections, when they are given back.
func (s *Store) Close() {
	s.closed.Store(true)
	s.pool.Close()
}

// newID is the identity of something new. Those of later moments sort later,
// which keeps the writes to an index together.
func newID() (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fmt.Errorf("making an id: %w", err)
	}
	return id, nil
}

// violated is the constraint that err says is violated, or "".
func violated(err error) string {
	const unique = "23505"
	if e := (&pgconn.PgError{}); errors.As(err, &e) && e.Code == unique {
		return e.ConstraintName
	}
	return ""
}
