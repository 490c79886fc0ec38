package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// evaluations measures how long the service itself says that it evaluated,
// Postgres and ClickHouse included: after a restart, when it judges all tasks,
// and while a thousand spend every second.
func (b *bench) evaluations(ctx context.Context) error {
	if err := b.service.Stop(); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	// The first is over before the second begins, a second later.
	all := durations{}
	for begun := time.Now(); all.evaluations.count == 0; time.Sleep(10 * time.Millisecond) {
		var err error
		if all, err = b.durations(ctx); err != nil {
			return err
		}
		if time.Since(begun) > startPatience {
			return errors.New("the service did not evaluate")
		}
	}
	fmt.Printf("evaluation_of_all_ms %.1f ms\n", all.evaluations.mean()*1000)
	fmt.Printf("refresh_of_all_ms %.1f ms\n", all.refreshes.mean()*1000)
	before, err := b.durations(ctx)
	if err != nil {
		return err
	}
	for round := range rounds {
		var body []byte
		for i := range changed {
			body = call(body, fmt.Sprint("again-", round, "-", i), taskName(i), calm)
		}
		if err := b.post(ctx, body); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	after, err := b.durations(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("evaluation_of_1000_ms %.1f ms\n", after.evaluations.since(before.evaluations).mean()*1000)
	fmt.Printf("refresh_of_1000_ms %.1f ms\n", after.refreshes.since(before.refreshes).mean()*1000)
	return nil
}

// What changes while evaluations are measured: in each round, a second apart.
const (
	changed = 1000
	rounds  = 10
)

// durations are what the service says of its evaluations, and of bringing the
// snapshot up to date before them.
type durations struct{ evaluations, refreshes observed }

func (b *bench) durations(ctx context.Context) (d durations, err error) {
	if d.evaluations, err = b.observed(ctx, "tatara_ledger_alerts_evaluation_duration_seconds"); err != nil {
		return d, err
	}
	d.refreshes, err = b.observed(ctx, "tatara_ledger_tasks_refresh_duration_seconds")
	return d, err
}

// observed is a histogram.
type observed struct{ sum, count float64 }

func (o observed) mean() float64 { return o.sum / o.count }

func (o observed) since(before observed) observed {
	return observed{o.sum - before.sum, o.count - before.count}
}

func (b *bench) observed(ctx context.Context, name string) (o observed, err error) {
	// The sum last, so that it has all that are counted.
	if o.count, err = b.service.Metric(ctx, name+"_count"); err != nil {
		return o, err
	}
	o.sum, err = b.service.Metric(ctx, name+"_sum")
	return o, err
}
