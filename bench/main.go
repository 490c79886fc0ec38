// Command bench measures the pipeline against the raw limit of the engine, in
// one run on one machine, and prints lines "name value unit". See
// docs/benchmarks.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"

	"github.com/szymonrychu/tatara-ledger/bench/service"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	binary string
	calls  int
	load   string
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.binary, "binary", "bin/tatara-ledger", "the built program")
	fs.IntVar(&o.calls, "calls", 1_000_000, "calls, and raw rows, to write")
	fs.StringVar(&o.load, "load", "", "be the load generator of this URL (the bench starts itself so)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.load != "" {
		return post(ctx, o.load, o.calls)
	}
	setting, closeAll, err := service.Setup(ctx, o.binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	return measure(ctx, o, setting)
}

func measure(ctx context.Context, o options, setting *service.Setting) (err error) {
	raw, err := rawInserts(ctx, setting.Engines.ClickHouse(), o.calls)
	if err != nil {
		return fmt.Errorf("measuring raw inserts: %w", err)
	}
	fmt.Printf("raw_insert_rows_per_s %.0f rows/s\n", raw)
	s, err := setting.Start(ctx)
	if err != nil {
		return fmt.Errorf("starting the service: %w", err)
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	visible, acknowledged, err := ingest(ctx, s, o.calls)
	if err != nil {
		return fmt.Errorf("measuring ingest: %w", err)
	}
	fmt.Printf("ingest_calls_per_s %.0f calls/s\n", visible)
	fmt.Printf("acknowledged_calls_per_s %.0f calls/s\n", acknowledged)
	fmt.Printf("ingest_to_raw %.3f ratio\n", visible/raw)
	return nil
}

// loadCommand is this program as the load generator: another process, so that
// its work is not the service's.
func loadCommand(ctx context.Context, url string, calls int) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-load", url, "-calls", fmt.Sprint(calls))
	cmd.Stderr = os.Stderr
	return cmd, nil
}
