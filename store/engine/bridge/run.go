package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Run starts the engine and serves it until ctx ends or Config.Until does. It
// then lets running queries finish (Config.DrainTimeout), kills the rest, stops
// the engine so that its data is on disk, and returns nil. A process can call
// it once.
func Run(ctx context.Context, config Config) error {
	config = config.withDefaults()
	server, err := New(config)
	if err != nil {
		return err
	}
	listener := config.Listener
	if listener == nil {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", config.Address); err != nil {
			return errors.Join(fmt.Errorf("listening for ClickHouse clients: %w", err), server.Close(ctx))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if config.Until != nil {
		go func() {
			_, _ = io.Copy(io.Discard, config.Until)
			cancel()
		}()
	}
	web := &http.Server{
		Handler:           server,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 20, // parameters and the query may be in the URL
		// Bodies have a deadline that moves with every read and write instead.
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	config.Log.Info("serving embedded ClickHouse", "address", listener.Addr().String(), "version", server.version)
	if config.Ready != nil {
		config.Ready(listener.Addr())
	}
	select {
	case err = <-served:
		err = fmt.Errorf("serving ClickHouse clients: %w", err)
	case <-ctx.Done():
		err = nil
	}
	return errors.Join(err, shutdown(ctx, web, server, config.DrainTimeout))
}

func shutdown(ctx context.Context, web *http.Server, server *Server, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	server.refuse()
	if err := web.Shutdown(ctx); err != nil {
		server.stop() // out of time: kill what still runs
	}
	if err := server.Close(ctx); err != nil {
		return fmt.Errorf("stopping the ClickHouse engine: %w", err)
	}
	return web.Close()
}
