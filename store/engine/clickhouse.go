package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/spf13/pflag"
)

const (
	clickHouseUser     = "ledger"
	grafanaUser        = "grafana"
	clickHouseDatabase = "tatara_ledger"
)

// ClickHouseAddress says how to reach the embedded ClickHouse over HTTP. The
// zero value means that there is none.
type ClickHouseAddress struct {
	Addr     string // host:port
	User     string
	Password Secret
	Database string // exists
}

// ClickHouseChild is what the child process is told on its command line: the
// flags of `tatara-ledger engines clickhouse`. It must answer GET /ping once it
// serves, and stop in order on SIGTERM, or when its standard input ends because
// the parent is gone.
type ClickHouseChild struct {
	Library             string // path of libchdb
	Path                string // data folder
	Listen              string // host:port
	User                string // may do everything
	PasswordFile        string
	GrafanaUser         string // may read what is published
	GrafanaPasswordFile string
	Database            string // the default one of GrafanaUser; created by the parent
	// DrainTimeout is how long running queries may finish during a stop.
	DrainTimeout time.Duration
	MemoryBytes  uint64 // 0 for the engine's default
}

// Flags registers the flags that Arguments writes.
func (c *ClickHouseChild) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Library, "library", c.Library, "path of libchdb")
	fs.StringVar(&c.Path, "path", c.Path, "folder of the data")
	fs.StringVar(&c.Listen, "listen", c.Listen, "host:port of the HTTP interface")
	fs.StringVar(&c.User, "user", c.User, "user who may do everything")
	fs.StringVar(&c.PasswordFile, "password-file", c.PasswordFile, "file with that user's password")
	fs.StringVar(&c.GrafanaUser, "grafana-user", c.GrafanaUser, "user who may read what is published")
	fs.StringVar(&c.GrafanaPasswordFile, "grafana-password-file", c.GrafanaPasswordFile, "file with that user's password")
	fs.StringVar(&c.Database, "database", c.Database, "database of that user's requests that name none")
	fs.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long running queries may finish during a stop")
	fs.Uint64Var(&c.MemoryBytes, "memory-bytes", c.MemoryBytes, "memory that the engine may use, 0 for its default")
}

// Arguments returns the command line, without the name of the program.
func (c *ClickHouseChild) Arguments() []string {
	args := []string{"engines", "clickhouse"}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	copied := *c
	copied.Flags(fs)
	fs.VisitAll(func(f *pflag.Flag) { args = append(args, "--"+f.Name+"="+f.Value.String()) })
	return args
}

// clickHouse builds the child that is the embedded ClickHouse.
type clickHouse struct {
	folder     *folder
	log        *slog.Logger
	client     *http.Client
	executable string
	args       ClickHouseChild
	port       int
	address    ClickHouseAddress
	grafana    ClickHouseAddress
}

func newClickHouse(ctx context.Context, cfg Config, f *folder, libs Libraries, log *slog.Logger) (*clickHouse, error) {
	if _, err := os.Stat(libs.ClickHouse); err != nil {
		return nil, fmt.Errorf("looking for libchdb (--%s): %w", FlagClickHouseLibrary, err)
	}
	if err := f.account.reach(libs.ClickHouse); err != nil {
		return nil, fmt.Errorf("checking libchdb (--%s, --%s): %w", FlagEnginesDir, FlagClickHouseLibrary, err)
	}
	c := &clickHouse{folder: f, log: log, executable: cfg.Executable}
	// Every probe has a connection of its own: one left over would delay the stop.
	c.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if err := c.locateExecutable(); err != nil {
		return nil, err
	}
	c.args = ClickHouseChild{
		Library:             libs.ClickHouse,
		Path:                f.join("clickhouse"),
		User:                clickHouseUser,
		PasswordFile:        f.join("secrets", "clickhouse"),
		GrafanaUser:         grafanaUser,
		GrafanaPasswordFile: f.join("secrets", "clickhouse-grafana"),
		Database:            clickHouseDatabase,
		// The rest of the time is the engine's, to put its data in order.
		DrainTimeout: cfg.StopTimeout * 2 / 3,
		MemoryBytes:  cfg.ClickHouse.MemoryBytes,
	}
	password, err := secretFile(c.args.PasswordFile, f.account)
	if err != nil {
		return nil, err
	}
	grafanaPassword, err := secretFile(c.args.GrafanaPasswordFile, f.account)
	if err != nil {
		return nil, err
	}
	if err := c.evict(ctx); err != nil {
		return nil, err
	}
	if c.port, err = f.port(ctx, "clickhouse", cfg.ClickHouse.Port, FlagClickHousePort); err != nil {
		return nil, err
	}
	c.args.Listen = net.JoinHostPort(loopback, strconv.Itoa(c.port))
	c.address = ClickHouseAddress{Addr: c.args.Listen, User: clickHouseUser, Password: password, Database: clickHouseDatabase}
	c.grafana = ClickHouseAddress{Addr: c.args.Listen, User: grafanaUser, Password: grafanaPassword, Database: clickHouseDatabase}
	return c, nil
}

func (c *clickHouse) locateExecutable() error {
	if c.executable == "" {
		c.executable = ownExecutable
	}
	if c.executable == "" {
		own, err := os.Executable()
		if err != nil {
			return fmt.Errorf("locating our own program: %w", err)
		}
		c.executable = own
	}
	if c.executable == ownExecutable {
		return nil
	}
	if err := c.folder.account.reach(c.executable); err != nil {
		return fmt.Errorf("checking the program that serves ClickHouse: %w", err)
	}
	return nil
}

func (c *clickHouse) child(cfg Config) *child {
	return &child{
		name:         "clickhouse",
		log:          c.log,
		prepare:      c.prepare,
		probe:        c.probe,
		started:      c.remember,
		parse:        parseJSON,
		startTimeout: cfg.StartTimeout,
		steps:        clickHouseSteps(cfg.StopTimeout),
	}
}

func clickHouseSteps(orderly time.Duration) []step {
	return []step{{syscall.SIGTERM, orderly}, {syscall.SIGKILL, 4 * time.Second}}
}

func (c *clickHouse) prepare(ctx context.Context) (command, error) {
	if err := c.evict(ctx); err != nil {
		return command{}, err
	}
	path, err := c.folder.data("clickhouse")
	if err != nil {
		return command{}, err
	}
	if err := portFree(ctx, c.port, FlagClickHousePort); err != nil {
		return command{}, err
	}
	return command{
		path: c.executable,
		name: "tatara-ledger",
		args: c.args.Arguments(),
		dir:  path,
		env:  []string{"PATH=/usr/bin:/bin", "HOME=" + path, "LC_ALL=C", "TZ=UTC"},
		// What was acknowledged is durable without a farewell, and a process
		// that is killed cannot linger.
		onParentDeath: syscall.SIGKILL,
		leash:         true,
		account:       c.folder.account,
	}, nil
}

// remember writes the pid down for evict.
func (c *clickHouse) remember(pid int) error {
	if err := writeFile(c.folder.join("clickhouse.pid"), []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the pid of ClickHouse: %w", err)
	}
	return nil
}

// evict ends a child that an earlier life of ours left running on these data.
func (c *clickHouse) evict(ctx context.Context) error {
	raw, err := os.ReadFile(c.folder.join("clickhouse.pid"))
	if err != nil {
		return nil //nolint:nilerr // a missing file is the normal case
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil //nolint:nilerr // what cannot be read names nobody
	}
	return evict(ctx, c.log, pid, clickHouseSteps(5*time.Second), "engines clickhouse", "--path="+c.args.Path+" ")
}

// probe asks for a ping, then creates the database where it is missing.
func (c *clickHouse) probe(ctx context.Context) error {
	if err := c.request(ctx, http.MethodGet, "/ping", ""); err != nil {
		return fmt.Errorf("asking for a ping: %w", err)
	}
	err := c.request(ctx, http.MethodPost, "/?database=default", "CREATE DATABASE IF NOT EXISTS `"+clickHouseDatabase+"`")
	if err != nil {
		return fmt.Errorf("creating the database: %w", err)
	}
	return nil
}

func (c *clickHouse) request(ctx context.Context, method, target, body string) error {
	address := url.URL{Scheme: "http", Host: c.address.Addr}
	req, err := http.NewRequestWithContext(ctx, method, address.String()+target, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.SetBasicAuth(c.address.User, c.address.Password.Reveal())
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return backoff.Permanent(errors.New("signing in: refused with the password that the child was given"))
	default:
		return fmt.Errorf("answer %s: %s", resp.Status, strings.TrimSpace(string(answer)))
	}
}
