package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Engines are the embedded engines, running. Its methods are safe for concurrent
// use.
type Engines struct {
	folder   *folder
	children []*child

	clickHouse ClickHouseAddress
	grafana    ClickHouseAddress
	postgres   PostgresAddress

	closing     chan struct{} // closed by Close
	supervisors sync.WaitGroup
	close       func() error // once
}

// Start takes the data folder, starts the engines that are not disabled and
// returns when they answer; on an error it leaves nothing running. The engines
// must have been installed: see Install. ctx bounds the start only; afterwards
// the engines run until Run's context ends or Close is called.
//
// With both engines disabled it touches nothing and returns Engines without any.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (_ *Engines, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checking the configuration of the embedded engines: %w", err)
	}
	e := &Engines{closing: make(chan struct{})}
	e.close = sync.OnceValue(e.stop)
	if cfg.ClickHouse.Disabled && cfg.Postgres.Disabled {
		return e, nil
	}
	libs, err := cfg.libraries()
	if err != nil {
		return nil, err
	}
	if e.folder, err = openFolder(cfg.DataDir, cfg.User); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if err := e.build(ctx, cfg, libs, log); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range e.children {
		group.Go(func() error { return c.start(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Engines) build(ctx context.Context, cfg Config, libs Libraries, log *slog.Logger) error {
	if !cfg.Postgres.Disabled {
		p, err := newPostgres(ctx, cfg, e.folder, libs, log.With("component", "postgres"))
		if err != nil {
			return err
		}
		e.postgres = p.address
		e.children = append(e.children, p.child(cfg))
	}
	if !cfg.ClickHouse.Disabled {
		c, err := newClickHouse(ctx, cfg, e.folder, libs, log.With("component", "clickhouse"))
		if err != nil {
			return err
		}
		e.clickHouse, e.grafana = c.address, c.grafana
		e.children = append(e.children, c.child(cfg))
	}
	return nil
}

// libraries finds what cfg needs.
func (c Config) libraries() (Libraries, error) {
	needInstalled := !c.Postgres.Disabled || (!c.ClickHouse.Disabled && c.ClickHouse.Library == "")
	var libs Libraries
	if needInstalled {
		var err error
		if libs, err = Locate(c.EnginesDir); err != nil {
			return Libraries{}, err
		}
	}
	if c.ClickHouse.Library != "" {
		libs.ClickHouse = c.ClickHouse.Library
	}
	if !c.Postgres.Disabled && libs.PostgresBin == "" {
		return Libraries{}, fmt.Errorf("no embedded Postgres for %s: configure the address of one", platform())
	}
	if !c.ClickHouse.Disabled && libs.ClickHouse == "" {
		return Libraries{}, fmt.Errorf("no embedded ClickHouse for %s: configure the address of one, or give a libchdb with --%s", platform(), FlagClickHouseLibrary)
	}
	return libs, nil
}

// Run keeps the engines running until ctx ends: one that dies is started again,
// under the same address, after a growing, jittered pause. Then it stops them and
// gives the data folder up. Stop the engines' clients first: end ctx after them.
func (e *Engines) Run(ctx context.Context) error {
	e.supervisors.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range e.children {
		group.Go(func() error { return c.supervise(ctx) })
	}
	select {
	case <-ctx.Done():
	case <-e.closing:
	}
	cancel()
	err := group.Wait()
	e.supervisors.Done()
	return errors.Join(err, e.Close())
}

// Close stops the engines and gives the data folder up. It is for a caller whose
// own start went wrong before Run; Run calls it itself, and returns when another
// does. Only the first call does anything; later ones return the same.
func (e *Engines) Close() error { return e.close() }

func (e *Engines) stop() error {
	close(e.closing)
	e.supervisors.Wait()
	errs := make([]error, len(e.children))
	var group sync.WaitGroup
	for i, c := range e.children {
		group.Go(func() { errs[i] = c.stop() })
	}
	group.Wait()
	if e.folder != nil {
		e.folder.close()
	}
	return errors.Join(errs...)
}

// ClickHouse returns the address and the account that may do everything.
func (e *Engines) ClickHouse() ClickHouseAddress { return e.clickHouse }

// GrafanaAccount returns the same address with the account that may only read
// what is published.
func (e *Engines) GrafanaAccount() ClickHouseAddress { return e.grafana }

// Postgres returns the address of the embedded Postgres.
func (e *Engines) Postgres() PostgresAddress { return e.postgres }
