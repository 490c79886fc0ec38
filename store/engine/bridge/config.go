package bridge

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"
)

// Account is a name and its password.
type Account struct {
	Name     string
	Password string
}

// LogValue hides the password.
func (a Account) LogValue() slog.Value { return slog.StringValue(a.Name) }

// String hides the password.
func (a Account) String() string { return a.Name }

// View is a table or view, by database and name.
type View struct{ Database, Name string }

// Limits bound each query of the restricted account. The zero value of a
// field means its default.
type Limits struct {
	// ExecutionTime is how long one query may run; default 30 s. A client that
	// asks for more gets this much: clickhouse-go derives the setting from its
	// own deadline, so refusing would break it.
	ExecutionTime time.Duration
	// MemoryBytes is how much memory one query may use; default 1 GiB.
	MemoryBytes uint64
	// ResultRows is how many rows a result may have; default 1 000 000.
	ResultRows uint64
	// ResultBytes is how large a result may be in memory; default 256 MiB.
	ResultBytes uint64
	// ReadRows is how many rows a query may read; default 1 000 000 000.
	ReadRows uint64
	// Threads is how many threads one query may use; default 2.
	Threads uint64
}

func (l Limits) withDefaults() Limits {
	orElse := func(v *uint64, fallback uint64) {
		if *v == 0 {
			*v = fallback
		}
	}
	if l.ExecutionTime == 0 {
		l.ExecutionTime = 30 * time.Second
	}
	orElse(&l.MemoryBytes, 1<<30)
	orElse(&l.ResultRows, 1_000_000)
	orElse(&l.ResultBytes, 256<<20)
	orElse(&l.ReadRows, 1_000_000_000)
	orElse(&l.Threads, 2)
	return l
}

// Config says what to serve and to whom.
type Config struct {
	// LibraryPath is the file libchdb.so (or .dylib). Required.
	LibraryPath string
	// DataPath is the folder of the engine's data, created if absent (0700).
	// One process at a time may use it. Required.
	DataPath string
	// Address is where Run listens, host:port; default 127.0.0.1:8123.
	// Ignored when Listener is set.
	Address string
	// Listener, if set, is served and closed by Run. Use it to choose a free port.
	Listener net.Listener

	// Owner may do everything. Name defaults to "default"; a password is required.
	Owner Account
	// Restricted may read Published only. An empty name means no such account.
	Restricted Account
	// Published are the views of the restricted account. They need not exist
	// yet, and must be created with SQL SECURITY DEFINER.
	Published []View
	// Database is the restricted account's when a request names none; empty means
	// "default", which is also the owner's. It must exist by then.
	Database string
	// Limits bound the restricted account's queries.
	Limits Limits

	// MaxQueries is how many requests run at once; default 32. Too low and
	// dashboards queue behind each other; too high and they compete for memory.
	MaxQueries int
	// QueueTimeout is how long a request waits for its turn before it is
	// refused with code 202; default 10 s.
	QueueTimeout time.Duration
	// IOTimeout ends a request whose client neither reads nor writes for this
	// long; default 5 min.
	IOTimeout time.Duration
	// DrainTimeout is how long running queries may finish at shutdown before
	// they are killed; default 20 s.
	DrainTimeout time.Duration
	// MaxMemoryBytes bounds the engine's memory as a whole; 0 means
	// ClickHouse's default, 90 % of the machine's.
	MaxMemoryBytes uint64

	// Until, if set, is read until it ends, and its end stops Run. Given
	// os.Stdin, a child process stops when the parent that holds the other end
	// of the pipe dies, however it dies.
	Until io.Reader
	// Ready, if set, is called once with the address when requests are served.
	Ready func(net.Addr)
	// Log receives one line per request; default slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Address == "" {
		c.Address = "127.0.0.1:8123"
	}
	if c.Owner.Name == "" {
		c.Owner.Name = "default"
	}
	if c.MaxQueries == 0 {
		c.MaxQueries = 32
	}
	for d, fallback := range map[*time.Duration]time.Duration{
		&c.QueueTimeout: 10 * time.Second, &c.IOTimeout: 5 * time.Minute, &c.DrainTimeout: 20 * time.Second,
	} {
		if *d == 0 {
			*d = fallback
		}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Limits = c.Limits.withDefaults()
	return c
}

// Validate reports every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.LibraryPath == "" {
		errs = append(errs, errors.New("no ClickHouse library path"))
	} else if _, err := os.Stat(c.LibraryPath); err != nil {
		errs = append(errs, fmt.Errorf("finding the ClickHouse library: %w", err))
	}
	if c.DataPath == "" {
		errs = append(errs, errors.New("no data path"))
	}
	if c.Owner.Password == "" {
		errs = append(errs, errors.New("the owner account has no password"))
	}
	if c.Restricted.Name != "" && c.Restricted.Password == "" {
		errs = append(errs, errors.New("the restricted account has no password"))
	}
	if c.Restricted.Name != "" && c.Restricted.Name == c.Owner.Name {
		errs = append(errs, errors.New("both accounts have one name"))
	}
	for _, v := range c.Published {
		if v.Database == "" || v.Name == "" || strings.ContainsFunc(v.Database+v.Name, func(r rune) bool { return r < ' ' }) {
			errs = append(errs, fmt.Errorf("published view %q.%q: not a name", v.Database, v.Name))
		}
		if isSystemDatabase(v.Database) {
			errs = append(errs, fmt.Errorf("published view %q.%q: a system table cannot be published", v.Database, v.Name))
		}
	}
	if c.MaxQueries < 0 || c.QueueTimeout < 0 || c.IOTimeout < 0 || c.DrainTimeout < 0 || c.Limits.ExecutionTime < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	return errors.Join(errs...)
}
