// Command alerts measures, with a fleet of live tasks, how long it takes from
// the acknowledgement of a call that crosses a ceiling to Alertmanager having
// the alert, how fast the service says how a task stands, and how long it
// evaluates the ceilings of all of them. It prints lines "name value unit". See
// docs/benchmarks.md.
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

	"github.com/szymonrychu/tatara-ledger/bench/service"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	binary    string
	tasks     int
	pods      int
	crossings int
	rate      float64
	seconds   int
	only      string
}

func (o *options) chosen(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	fs := flag.NewFlagSet("alerts", flag.ContinueOnError)
	fs.StringVar(&o.binary, "binary", "bin/tatara-ledger", "the built program")
	fs.IntVar(&o.tasks, "tasks", 100_000, "live tasks")
	fs.IntVar(&o.pods, "pods", 500, "wrappers that push besides, with turns")
	fs.IntVar(&o.crossings, "crossings", 50, "tasks that cross a ceiling, one after the other")
	fs.Float64Var(&o.rate, "rate", 100, "questions per second about how a task stands")
	fs.IntVar(&o.seconds, "seconds", 20, "for how long they are asked")
	fs.StringVar(&o.only, "only", "", "measure these only, separated by commas: crossings, answers, evaluations")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.tasks < 1 || o.pods < 1 || o.crossings < 1 || o.rate <= 0 || o.seconds < 1 {
		return errors.New("tasks, pods, crossings, the rate and the seconds must be positive")
	}
	setting, closeAll, err := service.Setup(ctx, o.binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	manager, err := startAlertmanager(ctx, setting.Dir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, manager.stop()) }()
	b := &bench{options: &o, setting: setting, manager: manager, recorder: newRecorder(manager.url)}
	defer b.recorder.close()
	return b.measure(ctx)
}

// bench is the service with an Alertmanager, before which sits what notes the
// times.
type bench struct {
	*options
	setting  *service.Setting
	manager  *alertmanager
	recorder *recorder
	service  *service.Service
}

func (b *bench) start(ctx context.Context) (err error) {
	b.service, err = b.setting.Start(ctx, "--alertmanagers", b.recorder.url())
	if err != nil {
		return fmt.Errorf("starting the service: %w", err)
	}
	return nil
}

func (b *bench) measure(ctx context.Context) (err error) {
	if err := b.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.service.Stop()) }()
	if err := b.load(ctx); err != nil {
		return fmt.Errorf("loading tasks: %w", err)
	}
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"crossings", b.cross},
		{"answers", b.answers},
		{"evaluations", b.evaluations},
	} {
		if !b.chosen(part.name) {
			continue
		}
		if err := part.measure(ctx); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
	}
	return nil
}

// spread prints the median, the 99th percentile and the maximum of delays.
func spread(name string, delays []time.Duration) {
	slices.Sort(delays)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Printf("%s_p50_ms %.2f ms\n", name, ms(delays[len(delays)/2]))
	fmt.Printf("%s_p99_ms %.2f ms\n", name, ms(delays[len(delays)*99/100]))
	fmt.Printf("%s_max_ms %.2f ms\n", name, ms(delays[len(delays)-1]))
}
