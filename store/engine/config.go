package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/pflag"
)

// Names of the flags that Config.Flags registers. Error messages name them too.
const (
	FlagDataDir           = "data-dir"
	FlagEnginesDir        = "engines-dir"
	FlagEnginesUser       = "engines-user"
	FlagClickHousePort    = "clickhouse-port"
	FlagClickHouseLibrary = "clickhouse-library"
	FlagClickHouseMemory  = "clickhouse-memory-bytes"
	FlagPostgresPort      = "postgres-port"
)

// DefaultClickHousePort is ClickHouse's own HTTP port: a Grafana datasource or a
// curl command written once keeps working.
const DefaultClickHousePort = 8123

// Config says which engines to run and where. The zero value is not usable:
// begin with DefaultConfig.
type Config struct {
	// DataDir holds everything that must survive: data, passwords, ports, lock.
	// Required. Default: see DefaultDataDir. It must be on a local file system.
	DataDir string

	// EnginesDir is where Install put the engines. Empty means DefaultEnginesDir,
	// else SystemEnginesDir. It is a cache: deleting it costs a download.
	EnginesDir string

	// Executable is the binary that is started as `engines clickhouse`. Empty
	// means this very program.
	Executable string

	// User runs the engines when the caller is root: a user name or id that the
	// password database knows. Empty means the owner of existing data, else the
	// first of tatara-ledger, postgres and nobody that exists. Ignored when the
	// caller is not root.
	User string

	// StartTimeout bounds how long one engine may take until it answers. Default
	// 2 minutes. Too low and a recovery after a crash is cut short, every time
	// anew; too high and an engine that hangs is reported late.
	StartTimeout time.Duration

	// StopTimeout bounds the orderly stop of one engine; after it, it is made to
	// stop (for up to 4 seconds more). Default 15 seconds. Too low and the next
	// start has a log to replay; too high and it exceeds the grace period of
	// whatever stops us.
	StopTimeout time.Duration

	ClickHouse ClickHouseConfig
	Postgres   PostgresConfig
}

// ClickHouseConfig configures the embedded ClickHouse.
type ClickHouseConfig struct {
	// Disabled leaves it out, because an address is configured.
	Disabled bool

	// Port on 127.0.0.1 for ClickHouse's HTTP interface. Default 8123. 0 picks a
	// free one and remembers it in the data folder.
	Port int

	// Library is a libchdb to use instead of the installed one. Empty means the
	// installed one. Needed on platforms for which none is pinned.
	Library string

	// MemoryBytes bounds ClickHouse's memory as a whole. Default 0: ClickHouse's
	// own default, 90 % of the machine's. Too low and large queries are refused;
	// too high, in a container, and the kernel kills it instead.
	MemoryBytes uint64
}

// PostgresConfig configures the embedded Postgres.
type PostgresConfig struct {
	// Disabled leaves it out, because an address is configured.
	Disabled bool

	// Port on 127.0.0.1. Default 0: a free one is picked and remembered in the
	// data folder, because only we connect to it.
	Port int
}

// DefaultConfig returns the defaults that are documented at each field.
func DefaultConfig() Config {
	return Config{
		DataDir:      DefaultDataDir(),
		StartTimeout: 2 * time.Minute,
		StopTimeout:  15 * time.Second,
		ClickHouse:   ClickHouseConfig{Port: DefaultClickHousePort},
	}
}

// DefaultDataDir is /var/lib/tatara-ledger for root; otherwise the user's data
// folder: $XDG_DATA_HOME or ~/.local/share, on a Mac ~/Library/Application
// Support. It is empty when the user has no home.
func DefaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/tatara-ledger"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tatara-ledger")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "tatara-ledger")
	}
	return filepath.Join(home, ".local", "share", "tatara-ledger")
}

// SystemEnginesDir is where root installs engines, for every user: the engines
// then run as another user, who could not read below /root. An image that is
// built by root and run by somebody else finds them there too.
const SystemEnginesDir = "/var/cache/tatara-ledger/engines"

// DefaultEnginesDir is where engines are installed: SystemEnginesDir for root,
// else a folder in the user's cache. It is empty when the user has no home.
func DefaultEnginesDir() string {
	if os.Geteuid() == 0 {
		return SystemEnginesDir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "tatara-ledger", "engines")
}

// Flags registers the flags of c, with the present values as defaults. Disabled,
// Executable and the timeouts have none: they follow from the rest of the
// service's configuration.
func (c *Config) Flags(fs *pflag.FlagSet) {
	c.ClickHouseFlags(fs)
	fs.IntVar(&c.Postgres.Port, FlagPostgresPort, c.Postgres.Port, "loopback port of the embedded Postgres, 0 for any")
}

// ClickHouseFlags registers those of the flags that matter without Postgres.
func (c *Config) ClickHouseFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.DataDir, FlagDataDir, c.DataDir, "folder of the embedded engines' data")
	fs.StringVar(&c.EnginesDir, FlagEnginesDir, c.EnginesDir, "folder in which the embedded engines are installed (default: the user's cache, else "+SystemEnginesDir+")")
	fs.StringVar(&c.User, FlagEnginesUser, c.User, "user that runs the embedded engines when started by root (default: owner of the data, else tatara-ledger, postgres or nobody)")
	fs.IntVar(&c.ClickHouse.Port, FlagClickHousePort, c.ClickHouse.Port, "loopback port of the embedded ClickHouse's HTTP interface, 0 for any")
	fs.StringVar(&c.ClickHouse.Library, FlagClickHouseLibrary, c.ClickHouse.Library, "libchdb to use instead of the installed one")
	fs.Uint64Var(&c.ClickHouse.MemoryBytes, FlagClickHouseMemory, c.ClickHouse.MemoryBytes, "memory that the embedded ClickHouse may use, 0 for 90 % of the machine's")
}

// Validate reports every mistake in c at once. It touches nothing on disk.
func (c Config) Validate() error {
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, fmt.Errorf("--%s must not be empty", FlagDataDir))
	}
	if c.StartTimeout <= 0 {
		errs = append(errs, errors.New("start timeout must be positive"))
	}
	if c.StopTimeout <= 0 {
		errs = append(errs, errors.New("stop timeout must be positive"))
	}
	ports := []struct {
		flag     string
		port     int
		disabled bool
	}{
		{FlagClickHousePort, c.ClickHouse.Port, c.ClickHouse.Disabled},
		{FlagPostgresPort, c.Postgres.Port, c.Postgres.Disabled},
	}
	for _, p := range ports {
		if !p.disabled && (p.port < 0 || p.port > 65535) {
			errs = append(errs, fmt.Errorf("--%s must be between 0 and 65535, not %d", p.flag, p.port))
		}
	}
	both := !c.ClickHouse.Disabled && !c.Postgres.Disabled
	if both && c.ClickHouse.Port != 0 && c.ClickHouse.Port == c.Postgres.Port {
		errs = append(errs, fmt.Errorf("--%s and --%s must differ", FlagClickHousePort, FlagPostgresPort))
	}
	return errors.Join(errs...)
}
