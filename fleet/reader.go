package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// reader reads the ledger for one epoch. One goroutine owns it.
type reader struct {
	*Exporter
	epoch int64

	loaded    bool
	watermark uint64 // as stored; zero: the ledger was never read to its end
	clock     uint64 // of the ledger, before it was last read to its end
	swept     time.Time
}

// shortly is how far most refreshes look back. What takes longer to become
// visible is counted by the next sweep, which looks back as far as a writer may
// take.
const shortly = 30 * time.Second

// forgetLater is by how much later a run is forgotten than its charges are taken
// for forgotten, so that a clock that is set back makes none count twice.
const forgetLater = 24 * time.Hour

// refresh counts what is new since the last one.
func (r *reader) refresh(ctx context.Context) error {
	clock, err := r.begin(ctx)
	if err != nil {
		return err
	}
	sweep := r.clock == 0 || time.Since(r.swept) >= r.cfg.Sweep
	since := back(r.clock, shortly)
	if sweep {
		since = back(r.watermark, clickhouse.AbandonedAfter)
		if clock < r.watermark {
			since = 0 // the server was replaced: its clock says nothing of what is counted
		}
	}
	started := time.Now()
	if err := r.countSince(ctx, since, clock); err != nil {
		return err
	}
	r.clock = clock
	if !sweep {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if err := r.state.SetFleetWatermark(ctx, r.epoch, clock, at(clock).Add(-r.cfg.Keep-forgetLater)); err != nil {
		return err
	}
	r.watermark, r.swept = max(r.watermark, clock), started
	return nil
}

// begin reads the ledger's clock and, once, how far the ledger was read.
func (r *reader) begin(ctx context.Context) (clock uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if !r.loaded {
		if r.watermark, err = r.state.FleetWatermark(ctx); err != nil {
			return 0, err
		}
		r.loaded = true
	}
	return r.ledger.Clock(ctx)
}

// countSince compares the runs that were derived since, batch by batch.
func (r *reader) countSince(ctx context.Context, since, clock uint64) error {
	unknown, cutoff := forgotten, at(clock).Add(-r.cfg.Keep)
	if r.watermark == 0 {
		unknown, cutoff = unread, at(clock).Add(-r.cfg.Recent)
	}
	var last clickhouse.PushedSpan
	for {
		n, err := r.batch(ctx, since, cutoff, unknown, &last)
		if err != nil || n < r.cfg.Batch {
			return err
		}
	}
}

// batch compares the runs that follow last, and returns how many there were.
func (r *reader) batch(ctx context.Context, since uint64, cutoff time.Time, unknown stranger, last *clickhouse.PushedSpan) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	spans, err := r.ledger.PushedSince(ctx, since, *last, r.cfg.Batch)
	if err != nil || len(spans) == 0 {
		return 0, err
	}
	*last = spans[len(spans)-1]
	pushed, err := r.ledger.PushedTotals(ctx, spans, cutoff)
	if err != nil || len(pushed) == 0 {
		return len(spans), err
	}
	runs := make([]string, len(pushed))
	for i := range pushed {
		runs[i] = pushed[i].Run
	}
	err = r.state.CountFleet(ctx, r.epoch, runs, func(known map[string]store.FleetRun) ([]store.FleetRun, []store.FleetIncrease) {
		return count(pushed, known, unknown)
	})
	if err != nil {
		return 0, fmt.Errorf("counting %d runs: %w", len(pushed), err)
	}
	return len(spans), nil
}

// back is the clock d earlier, at least 0.
func back(clock uint64, d time.Duration) uint64 {
	if clock < uint64(d) {
		return 0
	}
	return clock - uint64(d)
}

func at(clock uint64) time.Time { return time.Unix(0, int64(clock)) }
