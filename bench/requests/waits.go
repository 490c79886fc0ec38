package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	waiting   = 1000 // long polls at once
	waitFor   = 20 * time.Second
	settleFor = 10 * time.Second // until all wait, and the service has nothing to do
)

// waits measures what long polls of rooms in which nothing happens need.
func (b *bench) waits(ctx context.Context) error {
	// Whatever the service makes once, it has made then, its connections to
	// Postgres among it.
	all := operations()
	for i := range all {
		if all[i].name == "poll_idle" {
			if _, err := b.paced(ctx, &all[i], 0); err != nil {
				return err
			}
		}
	}
	before, err := b.use(ctx)
	if err != nil {
		return err
	}
	conns, start, err := b.wait(ctx)
	if err != nil {
		return err
	}
	time.Sleep(settleFor)
	during, err := b.use(ctx)
	if err != nil {
		return err
	}
	for _, c := range conns {
		err = errors.Join(err, c.receive(`"count":0`), c.Close())
	}
	if err != nil {
		return err
	}
	if took := time.Since(start); took < waitFor {
		return fmt.Errorf("the polls waited for %v only", took)
	}
	const mb = 1e6
	fmt.Printf("waits_memory_mb %.1f MB\n", (during.resident-before.resident)/mb)
	fmt.Printf("waits_heap_mb %.1f MB\n", (during.heap-before.heap)/mb)
	fmt.Printf("waits_stack_mb %.1f MB\n", (during.stack-before.stack)/mb)
	fmt.Printf("waits_connections_of_pool_in_use %.0f connections\n", during.inUse)
	fmt.Printf("waits_connections_beside_pool %.0f connections\n", during.connections-during.pool)
	return nil
}

// wait starts the polls, each on a connection of its own.
func (b *bench) wait(ctx context.Context) (conns []*conn, start time.Time, err error) {
	start = time.Now()
	for range waiting {
		c, err := dial(ctx, b.service.Addr)
		if err != nil {
			return nil, start, err
		}
		room := id(1 + rand.IntN(b.data.rooms))
		if err := c.send(get(nil, "/rooms/%[1]v/messages?participant=%[1]v&wait=%[2]v", room, waitFor)); err != nil {
			return nil, start, err
		}
		conns = append(conns, c)
	}
	return conns, start, nil
}

// use is what the service holds: bytes and connections to Postgres.
type use struct{ resident, heap, stack, pool, inUse, connections float64 }

func (b *bench) use(ctx context.Context) (u use, err error) {
	for name, v := range map[string]*float64{
		"process_resident_memory_bytes":             &u.resident,
		"go_memstats_heap_inuse_bytes":              &u.heap,
		"go_memstats_stack_inuse_bytes":             &u.stack,
		"tatara_ledger_postgres_connections":        &u.pool,
		"tatara_ledger_postgres_connections_in_use": &u.inUse,
	} {
		if *v, err = b.service.Metric(ctx, name); err != nil {
			return u, err
		}
	}
	err = b.db.QueryRow(ctx, `
		SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&u.connections)
	return u, err
}
