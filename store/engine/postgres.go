package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	postgresUser     = "ledger"
	postgresDatabase = "tatara_ledger"
)

// PostgresAddress says how to reach the embedded Postgres. The zero value means
// that there is none.
type PostgresAddress struct {
	Addr     string // host:port
	User     string // owner of the cluster
	Password Secret
	Database string // exists
}

// DSN returns the address as a connection string for pgx. It contains the
// password.
func (a PostgresAddress) DSN() string {
	return a.dsn(a.Database)
}

func (a PostgresAddress) dsn(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(a.User, a.Password.Reveal()),
		Host:     a.Addr,
		Path:     database,
		RawQuery: "sslmode=disable", // loopback
	}
	return u.String()
}

// postgres builds the child that is the embedded Postgres.
type postgres struct {
	folder  *folder
	log     *slog.Logger
	bin     string // folder of initdb and postgres
	major   string // what bin is
	data    string
	port    int
	address PostgresAddress
}

func newPostgres(ctx context.Context, cfg Config, f *folder, libs Libraries, log *slog.Logger) (*postgres, error) {
	if err := f.account.reach(libs.PostgresBin); err != nil {
		return nil, fmt.Errorf("checking --%s: %w", FlagEnginesDir, err)
	}
	p := &postgres{folder: f, log: log, bin: libs.PostgresBin, data: f.join("postgres")}
	p.major, _, _ = strings.Cut(libs.PostgresVersion, ".")
	if err := p.checkVersion(); err != nil {
		return nil, err
	}
	password, err := p.password()
	if err != nil {
		return nil, err
	}
	if err := p.evict(ctx); err != nil {
		return nil, err
	}
	if p.port, err = f.port(ctx, "postgres", cfg.Postgres.Port, FlagPostgresPort); err != nil {
		return nil, err
	}
	p.address = PostgresAddress{
		Addr:     net.JoinHostPort(loopback, strconv.Itoa(p.port)),
		User:     postgresUser,
		Password: password,
		Database: postgresDatabase,
	}
	return p, nil
}

func (p *postgres) child(cfg Config) *child {
	return &child{
		name:         "postgres",
		log:          p.log,
		prepare:      p.prepare,
		probe:        p.probe,
		parse:        parsePostgres,
		again:        p.endSessions,
		startTimeout: cfg.StartTimeout,
		steps:        postgresSteps(cfg.StopTimeout),
	}
}

// postgresSteps: SIGINT is a fast shutdown (sessions are ended, a checkpoint is
// written), SIGQUIT an immediate one (the next start replays the log).
func postgresSteps(orderly time.Duration) []step {
	return []step{{syscall.SIGINT, orderly}, {syscall.SIGQUIT, 2 * time.Second}, {syscall.SIGKILL, 2 * time.Second}}
}

// endSessions recognises a start refused because sessions of a server that was
// killed still hold its memory, and ends them; true means that the start is worth
// repeating. Idle sessions notice the death by themselves, one that computes may
// not for hours.
func (p *postgres) endSessions(err error) bool {
	if !strings.Contains(err.Error(), "pre-existing shared memory block") {
		return false
	}
	// Every session's working folder is the data folder, and we hold its lock.
	for _, pid := range processesIn(p.data) {
		p.log.Warn("ending a session of a Postgres that was killed", "pid", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return true
}

// checkVersion refuses data of another major version.
func (p *postgres) checkVersion() error {
	raw, err := os.ReadFile(filepath.Join(p.data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the version of the Postgres data: %w", err)
	}
	if have := strings.TrimSpace(string(raw)); have != p.major {
		return fmt.Errorf("the Postgres data in %s were written by version %s, and the installed Postgres is version %s: dump them with version %s and load them into a new --%s",
			p.data, have, p.major, have, FlagDataDir)
	}
	return nil
}

// password reads or creates the password. Data whose password is lost must not
// get a new one that would not open them.
func (p *postgres) password() (Secret, error) {
	path := p.folder.join("secrets", "postgres")
	_, noPassword := os.Stat(path)
	_, noData := os.Stat(filepath.Join(p.data, "PG_VERSION"))
	if errors.Is(noPassword, fs.ErrNotExist) && noData == nil {
		return Secret{}, fmt.Errorf("the password of the Postgres data in %s is missing: restore %s", p.data, path)
	}
	// It stays the caller's: the server itself never needs it again.
	return secretFile(path, nil)
}

// evict ends a server that an earlier life of ours left running on these data,
// and removes the pid file where its pid is a stranger's: Postgres refuses to
// start while any process of its user has that number, which after the restart of
// a container is likely.
func (p *postgres) evict(ctx context.Context) error {
	path := filepath.Join(p.data, "postmaster.pid")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the pid file of Postgres: %w", err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return nil //nolint:nilerr // Postgres judges a malformed file better than we do
	}
	if err := evict(ctx, p.log, pid, postgresSteps(5*time.Second), "postgres -D "+p.data+" "); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the pid file of a Postgres that is gone: %w", err)
	}
	return nil
}

func (p *postgres) prepare(ctx context.Context) (command, error) {
	if err := p.evict(ctx); err != nil {
		return command{}, err
	}
	if err := p.initialise(ctx); err != nil {
		return command{}, err
	}
	if err := portFree(ctx, p.port, FlagPostgresPort); err != nil {
		return command{}, err
	}
	return p.command("postgres",
		"-D", p.data,
		"-c", "listen_addresses="+loopback,
		"-c", "port="+strconv.Itoa(p.port),
		// No socket file: its path may be too long, and its folder needs an owner.
		"-c", "unix_socket_directories=",
		"-c", "password_encryption=scram-sha-256",
		"-c", "timezone=UTC",
		"-c", "log_timezone=UTC",
		// The log gets neither statements nor the values in them.
		"-c", "log_line_prefix=",
		"-c", "log_min_error_statement=panic",
		"-c", "log_error_verbosity=terse",
		"-c", "logging_collector=off",
	), nil
}

func (p *postgres) command(program string, args ...string) command {
	return command{
		path: filepath.Join(p.bin, program),
		args: args,
		dir:  "/",
		// Nothing of ours: PG* variables would change what it does, and the
		// others are none of its business.
		env:           []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"},
		account:       p.folder.account,
		onParentDeath: syscall.SIGQUIT, // at once; SIGKILL would leave its sessions
	}
}

// probe connects, and creates the database where it is missing.
func (p *postgres) probe(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.address.dsn("postgres"))
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "28P01" {
		return backoff.Permanent(fmt.Errorf("signing in: the password in %s is not the one that the data were made with", p.folder.join("secrets", "postgres")))
	}
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing depends on it
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, postgresDatabase).Scan(&exists)
	if err != nil {
		return fmt.Errorf("looking for the database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{postgresDatabase}.Sanitize()); err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	return nil
}
