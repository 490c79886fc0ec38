package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/szymonrychu/tatara-ledger/api"
	"github.com/szymonrychu/tatara-ledger/api/auth"
	"github.com/szymonrychu/tatara-ledger/collector"
	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/health"
	"github.com/szymonrychu/tatara-ledger/store/engine"
	"github.com/szymonrychu/tatara-ledger/store/postgres"
)

// serveConfig is the configuration of the service: one struct per component.
type serveConfig struct {
	listen      string // main listener
	pushListen  string // listener of the wrappers' pushes
	pushAnyHost bool
	prices      string
	taskPattern string
	logLevel    slog.Level
	drain       time.Duration
	check       bool

	clickHouse clickHouseFlags
	postgres   postgresFlags
	sweep      postgres.SweepConfig
	api        api.Config // its limits; what it serves comes later
	auth       auth.Config
	engine     engine.Config
	collector  collector.Config
	receive    receive.Config
	journal    journal.Config
	alerting   alertingFlags
	health     health.Config
}

func defaultServe() serveConfig {
	return serveConfig{
		listen:     "127.0.0.1:8080",
		pushListen: "127.0.0.1:8082",
		drain:      10 * time.Second,
		sweep:      postgres.DefaultSweepConfig(),
		api:        api.DefaultConfig(),
		auth:       auth.DefaultConfig(),
		engine:     engine.DefaultConfig(),
		collector:  collector.DefaultConfig(),
		receive:    receive.DefaultConfig(),
		journal:    journal.DefaultConfig(""),
		alerting:   defaultAlerting(),
		health:     health.DefaultConfig(),
	}
}

func newServeCommand() *cobra.Command {
	cfg := defaultServe()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Take telemetry in, answer queries, and keep handoffs and rooms",
		Long: `Take the pushes of wrappers and posted calls in, keep the ledger, and answer
queries of it. Keep the handoffs and rooms of agents.

Raise an alert when a task reaches a threshold of its ceiling, at every
Alertmanager of --alertmanagers and at --alert-webhook.

Callers show a bearer token: of the OpenID Connect provider of --oidc-issuer, or
one of --tokens-file. With neither, everybody may do everything, on loopback
only.

Without --clickhouse and --postgres, embedded engines run below --data-dir
(install them once with: tatara-ledger engines install). A fact is acknowledged
when it is durable in the journal below --data-dir, whether or not ClickHouse
answers.`,
		Example: `  tatara-ledger serve --data-dir ./data
  tatara-ledger serve --clickhouse ch:8123 --postgres postgres://ledger@pg/ledger --data-dir /data`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.validate(); err != nil {
				return &exitError{2, err}
			}
			return serve(cmd.Context(), cfg, cmd.ErrOrStderr())
		},
	}
	cfg.add(cmd.Flags())
	return cmd
}

func (c *serveConfig) add(f *pflag.FlagSet) {
	f.StringVar(&c.listen, "listen", c.listen, "`address` of the API; other than loopback it needs --oidc-issuer or --tokens-file")
	f.StringVar(&c.pushListen, "push-listen", c.pushListen, "`address` of the wrappers' pushes, /internal/metrics/push")
	f.BoolVar(&c.pushAnyHost, "push-allow-remote", false, "let --push-listen be other than loopback: pushes carry no authentication")
	f.StringVar(&c.receive.ForwardTo, "forward-to", "", "`URL` of the operator's own push receiver, which gets a copy of each push")
	f.StringVar(&c.prices, "prices", "", "price `file` laid over the shipped book")
	f.StringVar(&c.taskPattern, "task-pattern", "", "regular `expression` with one capture group: the task of a pod's name")
	f.TextVar(&c.logLevel, "log-level", slog.LevelInfo, "`level` of the log: debug, info, warn or error")
	f.DurationVar(&c.drain, "drain-timeout", c.drain, "how long a stop waits for the journal to drain; the rest drains at the next start")
	f.Int64Var(&c.journal.MaxBytes, "journal-bytes", c.journal.MaxBytes, "how many `bytes` the journal may hold while ClickHouse is away; then clients get a 503")
	f.DurationVar(&c.collector.ConflictWindow, "conflict-window", c.collector.ConflictWindow, "how long a call's id counts once, whatever comes under it")
	f.BoolVar(&c.check, "check", false, "build everything, reach ClickHouse and Postgres, change no schema, serve nothing, and exit; embedded engines are started for it")
	c.addBounds(f)
	c.clickHouse.add(f)
	c.postgres.add(f)
	c.auth.Flags(f)
	c.api.Flags(f)
	c.sweep.Flags(f)
	c.engine.Flags(f)
	c.alerting.add(f)
	c.health.Flags(f)
}

func (c *serveConfig) addBounds(f *pflag.FlagSet) {
	b := &c.collector.LabelBounds
	for _, l := range []struct {
		name  string
		bound *int
	}{
		{"kinds", &b.Kind},
		{"repos", &b.Repo},
		{"projects", &b.Project},
		{"models", &b.Model},
		{"efforts", &b.Effort},
		{"agents", &b.Agent},
	} {
		f.IntVar(l.bound, "max-"+l.name, *l.bound, "how many "+l.name+" are told apart; more count as "+strconv.Quote(collector.Other))
	}
}

// validate reports every mistake at once and completes what follows from the
// rest.
func (c *serveConfig) validate() error {
	c.engine.ClickHouse.Disabled = len(c.clickHouse.clickHouse) > 0
	c.engine.Postgres.Disabled = c.postgres.postgres != ""
	if c.engine.DataDir != "" {
		c.journal.Dir = filepath.Join(c.engine.DataDir, "journal")
	}
	c.sizeJournal()
	errs := []error{
		c.engine.Validate(), c.collector.Validate(), c.receive.Validate(), c.journal.Validate(),
		c.auth.Validate(), c.api.Validate(), c.sweep.Validate(), c.postgres.validate(), c.alerting.validate(), c.health.Validate(),
	}
	if !c.auth.Enabled() {
		errs = append(errs, loopbackOnly("--listen", c.listen, "callers must be told apart there: give --oidc-issuer or --tokens-file"))
	}
	if !c.pushAnyHost {
		errs = append(errs, loopbackOnly("--push-listen", c.pushListen, "give --push-allow-remote to open it: pushes carry no authentication"))
	}
	if _, err := c.pattern(); err != nil {
		errs = append(errs, err)
	}
	if c.drain < 0 {
		errs = append(errs, errors.New("--drain-timeout must not be negative"))
	}
	return errors.Join(errs...)
}

// sizeJournal gives a small journal small segments, since space comes back a
// segment at a time. The smallest segment holds any push and any 5000 calls of
// common size; a journal that does not hold two of those is refused.
func (c *serveConfig) sizeJournal() {
	const perJournal, smallest = 8, 2 << 20
	j := &c.journal
	j.SegmentBytes = min(j.SegmentBytes, max(j.MaxBytes/perJournal, smallest))
	j.MaxRecordBytes = min(j.MaxRecordBytes, int(j.SegmentBytes))
	j.GroupBytes = min(j.GroupBytes, int(j.SegmentBytes))
}

func (c *serveConfig) pattern() (*regexp.Regexp, error) {
	if c.taskPattern == "" {
		return nil, nil
	}
	re, err := regexp.Compile(c.taskPattern)
	if err != nil {
		return nil, fmt.Errorf("--task-pattern: %w", err)
	}
	if re.NumSubexp() != 1 {
		return nil, fmt.Errorf("--task-pattern %q must have one capture group", c.taskPattern)
	}
	return re, nil
}

func loopbackOnly(flag, addr, why string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s %q is no host:port", flag, addr)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || (err == nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%s %s is not loopback: %s", flag, addr, why)
}
