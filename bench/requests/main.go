// Command requests measures what the service adds to Postgres: each kind of request
// from keep-alive clients over HTTP, next to pgbench sending the statements
// that the service sends for it, in turns, on the same data. It prints lines
// "name value unit". See docs/benchmarks.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/bench/service"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// clients is how many send at once, to the service and to Postgres.
const clients = 8

type options struct {
	binary  string
	rounds  int
	seconds int
	only    string
	large   bool
	times   int
	loader  loadSpec
}

func (o *options) chosen(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	fs := flag.NewFlagSet("requests", flag.ContinueOnError)
	fs.StringVar(&o.binary, "binary", "bin/tatara-ledger", "the built program")
	fs.IntVar(&o.rounds, "rounds", 5, "how often pgbench and the service take turns; the median round counts")
	fs.IntVar(&o.seconds, "seconds", 3, "length of a turn")
	fs.StringVar(&o.only, "only", "", "measure these only, separated by commas: the names of operations, and waits")
	fs.BoolVar(&o.large, "large", false, "measure reads with many more rows too")
	fs.IntVar(&o.times, "times", 100, "how many times as many rows; 100 are a million handoffs and ten million messages")
	o.loader.flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.loader.addr != "" {
		return o.loader.run(ctx)
	}
	setting, closeAll, err := service.Setup(ctx, o.binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	return measure(ctx, &o, setting)
}

func measure(ctx context.Context, o *options, setting *service.Setting) (err error) {
	s, err := setting.Start(ctx) // and its migrations
	if err != nil {
		return fmt.Errorf("starting the service: %w", err)
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	db, err := pgx.Connect(ctx, setting.Engines.Postgres().DSN())
	if err != nil {
		return fmt.Errorf("connecting to Postgres: %w", err)
	}
	defer db.Close(ctx) //nolint:errcheck // nothing depends on it
	b := &bench{options: o, service: s, db: db, postgres: setting.Engines.Postgres(), data: small, small: map[string]rate{}}
	if err := b.rates(ctx); err != nil {
		return err
	}
	if o.large {
		if err := b.growth(ctx); err != nil {
			return err
		}
	}
	if !o.chosen("waits") {
		return nil
	}
	// Of a new process: memory that an earlier load left free would hide what
	// the waits need.
	if err := s.Stop(); err != nil {
		return err
	}
	fresh, err := setting.Start(ctx)
	if err != nil {
		return fmt.Errorf("starting the service: %w", err)
	}
	*s = *fresh // which is stopped at the end
	if err := b.waits(ctx); err != nil {
		return fmt.Errorf("measuring waits: %w", err)
	}
	return nil
}

// rates measures every operation, and its delay at half of its rate.
func (b *bench) rates(ctx context.Context) error {
	if err := b.load(ctx, small); err != nil {
		return err
	}
	for _, op := range operations() {
		if !b.chosen(op.name) {
			continue
		}
		r, err := b.compare(ctx, &op)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", op.name, err)
		}
		fmt.Printf("%s_pgbench_per_s %.0f 1/s\n", op.name, r.pgbench)
		fmt.Printf("%s_api_per_s %.0f 1/s\n", op.name, r.api)
		fmt.Printf("%s_api_to_pgbench %.2f ratio\n", op.name, r.ratio)
		fmt.Printf("%s_service_cpu_us %.0f µs\n", op.name, r.cpu)
		half, err := b.paced(ctx, &op, r.api/2)
		if err != nil {
			return fmt.Errorf("measuring the delay of %s: %w", op.name, err)
		}
		fmt.Printf("%s_half_load_p50_ms %.2f ms\n", op.name, half.p50)
		fmt.Printf("%s_half_load_p99_ms %.2f ms\n", op.name, half.p99)
		b.small[op.name] = r
	}
	return nil
}

// growth measures how much slower reads are with many rows.
func (b *bench) growth(ctx context.Context) error {
	start := time.Now()
	if err := b.load(ctx, dataset{small.handoffs * b.times, small.rooms, small.messages * b.times}); err != nil {
		return fmt.Errorf("loading many rows: %w", err)
	}
	fmt.Printf("large_load_s %.0f s\n", time.Since(start).Seconds())
	for _, op := range operations() {
		before, measured := b.small[op.name]
		if !op.reads || !measured {
			continue
		}
		r, err := b.compare(ctx, &op)
		if err != nil {
			return fmt.Errorf("measuring %s with many rows: %w", op.name, err)
		}
		fmt.Printf("%s_large_pgbench_per_s %.0f 1/s\n", op.name, r.pgbench)
		fmt.Printf("%s_large_api_per_s %.0f 1/s\n", op.name, r.api)
		fmt.Printf("%s_small_to_large_pgbench %.2f ratio\n", op.name, before.pgbench/r.pgbench)
		fmt.Printf("%s_small_to_large_api %.2f ratio\n", op.name, before.api/r.api)
	}
	return nil
}
