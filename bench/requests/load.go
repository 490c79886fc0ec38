package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// loadSpec is what the load generator does: another process, so that its work
// is not the bench's.
type loadSpec struct {
	addr    string
	op      string
	rate    float64 // requests per second of all clients; 0: as many as there can be
	seconds int
	data    dataset
}

func (l *loadSpec) flags(fs *flag.FlagSet) {
	fs.StringVar(&l.addr, "load", "", "be the load generator of this address (the bench starts itself so, with the flags below)")
	fs.StringVar(&l.op, "load-operation", "", "what it asks for")
	fs.Float64Var(&l.rate, "load-rate", 0, "requests per second; 0: as many as possible")
	fs.IntVar(&l.seconds, "load-seconds", 0, "for how long")
	fs.IntVar(&l.data.handoffs, "load-handoffs", 0, "handoffs to choose from")
	fs.IntVar(&l.data.rooms, "load-rooms", 0, "rooms to choose from")
}

// outcome is what a load generator found: a rate, and delays in ms.
type outcome struct{ perSecond, p50, p99 float64 }

// paced runs a load generator. A rate of zero is as fast as it can.
func (b *bench) paced(ctx context.Context, op *operation, rate float64) (out outcome, err error) {
	if rate > 0 {
		if err := b.reset(ctx, op); err != nil {
			return out, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return out, err
	}
	cmd := exec.CommandContext(ctx, self, "-load", b.service.Addr, "-load-operation", op.name, "-load-rate", fmt.Sprint(rate),
		"-load-seconds", fmt.Sprint(b.seconds), "-load-handoffs", fmt.Sprint(b.data.handoffs), "-load-rooms", fmt.Sprint(b.data.rooms))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("running the load generator: %w", err)
	}
	_, err = fmt.Sscan(string(text), &out.perSecond, &out.p50, &out.p99)
	return out, err
}

func (l *loadSpec) run(ctx context.Context) error {
	all := operations()
	i := slices.IndexFunc(all, func(o operation) bool { return o.name == l.op })
	if i < 0 {
		return fmt.Errorf("no operation %q", l.op)
	}
	workers := make([]*worker, clients)
	for n := range workers {
		c, err := dial(ctx, l.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		workers[n] = &worker{conn: c, op: &all[i], spec: l, client: n, random: rand.New(rand.NewPCG(rand.Uint64(), uint64(n)))}
	}
	start := time.Now()
	end := start.Add(time.Duration(l.seconds) * time.Second)
	var g errgroup.Group
	for _, w := range workers {
		g.Go(func() error { return w.run(start, end) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	elapsed := time.Since(start).Seconds()
	var delays []time.Duration
	for _, w := range workers {
		delays = append(delays, w.delays...)
	}
	if len(delays) == 0 {
		return errors.New("nothing was answered")
	}
	slices.Sort(delays)
	ms := func(share int) float64 { return float64(delays[len(delays)*share/100].Microseconds()) / 1000 }
	fmt.Println(float64(len(delays))/elapsed, ms(50), ms(99))
	return nil
}

// worker is one client.
type worker struct {
	*conn
	op     *operation
	spec   *loadSpec
	client int
	random *rand.Rand
	delays []time.Duration
}

// run sends until end. At a given rate, requests are due at random moments,
// whether or not the one before is answered, and late from then on: a service
// that stalls is not spared what would have come meanwhile.
func (w *worker) run(start, end time.Time) error {
	for due := start; ; {
		if w.spec.rate > 0 {
			due = due.Add(time.Duration(w.random.ExpFloat64() * clients / w.spec.rate * float64(time.Second)))
			time.Sleep(time.Until(due))
		} else {
			due = time.Now()
		}
		if due.After(end) {
			return nil
		}
		d := draw{client: w.client, key: 1 + w.random.IntN(w.spec.data.handoffs), room: 1 + w.random.IntN(w.spec.data.rooms)}
		d.project = d.key % projects
		if err := w.ask(w.op.request(w.request[:0], d), w.op.answer); err != nil {
			return err
		}
		w.delays = append(w.delays, time.Since(due))
	}
}
