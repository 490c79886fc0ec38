package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/szymonrychu/tatara-ledger/bench/service"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// bench is what measures.
type bench struct {
	*options
	service  *service.Service
	db       *pgx.Conn
	postgres engine.PostgresAddress
	data     dataset
	small    map[string]rate // of the small dataset, by operation
}

// rate is how often per second an operation is done, and how much time of a
// core each takes in the service, in µs: the medians of all rounds.
type rate struct{ pgbench, api, ratio, cpu float64 }

const cpuSeconds = "process_cpu_seconds_total"

// compare has pgbench and the service take turns. The service runs all the
// time, so that what it does by itself is the same for both.
func (b *bench) compare(ctx context.Context, op *operation) (rate, error) {
	example, err := b.statements(ctx, op)
	if err != nil {
		return rate{}, fmt.Errorf("finding the statements: %w", err)
	}
	script := newScript(op, example)
	var pgbench, api, ratio, cpu []float64
	for range b.rounds {
		if err := b.reset(ctx, op); err != nil {
			return rate{}, err
		}
		p, err := b.pgbench(ctx, script)
		if err != nil {
			return rate{}, fmt.Errorf("running pgbench: %w", err)
		}
		if err := b.reset(ctx, op); err != nil {
			return rate{}, err
		}
		before, err := b.service.Metric(ctx, cpuSeconds)
		if err != nil {
			return rate{}, err
		}
		a, err := b.paced(ctx, op, 0)
		if err != nil {
			return rate{}, err
		}
		after, err := b.service.Metric(ctx, cpuSeconds)
		if err != nil {
			return rate{}, err
		}
		pgbench, api, ratio = append(pgbench, p), append(api, a.perSecond), append(ratio, a.perSecond/p)
		cpu = append(cpu, (after-before)*1e6/(a.perSecond*float64(b.seconds)))
	}
	return rate{median(pgbench), median(api), median(ratio), median(cpu)}, nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func (b *bench) reset(ctx context.Context, op *operation) error {
	if op.reset == "" {
		return nil
	}
	_, err := b.db.Exec(ctx, op.reset)
	return err
}
