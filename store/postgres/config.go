package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config says where Postgres is and how patient the store is.
type Config struct {
	// URL is a connection URL or a keyword/value string. Required.
	URL string
	// Password overrides the URL's. Empty: the URL's.
	Password string
	// MaxConns bounds the connections of the pool, beside one that listens.
	// Default 16. Too low makes requests wait for each other; the sum over all
	// replicas must stay below Postgres's max_connections.
	MaxConns int
	// RetryFor bounds how long a request is retried while Postgres is away.
	// Default 20 s: the clients wait for 60 s.
	RetryFor time.Duration
	// Tracer sees every statement. Default nil: nothing does.
	Tracer pgx.QueryTracer
}

// DefaultConfig is the configuration but for the URL.
func DefaultConfig() Config { return Config{MaxConns: 16, RetryFor: 20 * time.Second} }

// Validate reports every mistake at once. The URL is read by [Open].
func (c *Config) Validate() error {
	var errs []error
	if c.MaxConns < 2 || c.MaxConns > 1000 {
		errs = append(errs, fmt.Errorf("--postgres-connections must be 2 to 1000, not %d", c.MaxConns))
	}
	if c.RetryFor <= 0 {
		errs = append(errs, errors.New("postgres: the time of retries must be positive"))
	}
	return errors.Join(errs...)
}
