package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Source is the journal as the writer sees it.
type Source interface {
	Next(ctx context.Context) (journal.Batch, error)
	Commit(p journal.Position) error
}

// Writer drains the journal into the ledger: facts first, then the charges
// that follow from them. One goroutine owns it, in Run.
type Writer struct {
	cfg     Config
	source  Source
	codec   *Codec
	ledger  Ledger
	deriver *derive.Deriver
	guard   *guard
	cache   *counterCache
	aside   *Aside
	log     *slog.Logger
	metrics *metrics
}

// NewWriter returns a writer; Run starts it. Records that the ledger refuses
// go to aside.
func NewWriter(cfg Config, source Source, codec *Codec, ledger Ledger, deriver *derive.Deriver, aside *Aside, log *slog.Logger, reg prometheus.Registerer) *Writer {
	m := newMetrics(reg)
	return &Writer{
		cfg: cfg, source: source, codec: codec, ledger: ledger, deriver: deriver, aside: aside,
		guard: newGuard(ledger, cfg.LabelBounds, m.folded), cache: newCounterCache(),
		log: log.With("component", "writer"), metrics: m,
	}
}

// Run drains the journal until ctx ends. A batch that is being written when
// ctx ends is finished within the attempt's timeout: whatever is not stays in
// the journal. The next batch is read and decoded while one is written.
func (w *Writer) Run(ctx context.Context) error {
	batches := make(chan batch)
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { return w.read(running, batches) })
	g.Go(func() error {
		for b := range batches {
			if err := w.writeUntilDone(running, b); err != nil {
				return err
			}
		}
		return nil
	})
	err := g.Wait()
	if ctx.Err() != nil || errors.Is(err, journal.ErrClosed) {
		return nil //nolint:nilerr // what was not committed is read again at the next start
	}
	return err
}

// read hands batches over until ctx ends, and closes the channel.
func (w *Writer) read(ctx context.Context, to chan<- batch) error {
	defer close(to)
	for {
		b, err := w.collect(ctx)
		if ctx.Err() != nil || errors.Is(err, journal.ErrClosed) {
			return errors.Join(ctx.Err(), err)
		}
		if err != nil {
			// The journal goes on by itself after a few failures, past what it
			// cannot read, which it counts.
			w.log.Error("journal cannot be read; trying again", "error", err)
			select {
			case <-time.After(w.cfg.RetryMax):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case to <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// batch are the decoded records of a stretch of the journal.
type batch struct {
	records []record
	last    journal.Position
	oldest  time.Time
}

// record is one record of the journal.
type record struct {
	raw   []byte
	facts usage.Facts
}

// collect reads the journal until the batch is full or has waited long enough
// for more.
func (w *Writer) collect(ctx context.Context) (batch, error) {
	var (
		b            batch
		facts, bytes int
	)
	wait := ctx
	for facts < w.cfg.BatchFacts && bytes < w.cfg.BatchBytes {
		next, err := w.source.Next(wait)
		if err != nil {
			// What was read is written first: a later commit would cover it. An
			// error that is not the end of the wait comes again.
			if !b.oldest.IsZero() && ctx.Err() == nil {
				return b, nil
			}
			return b, err
		}
		if b.oldest.IsZero() {
			b.oldest = next.Oldest
			var cancel context.CancelFunc
			wait, cancel = context.WithTimeout(ctx, w.cfg.Linger)
			defer cancel()
		}
		for _, raw := range next.Records {
			r := record{raw: raw}
			if err := w.codec.Decode(raw, &r.facts); err != nil {
				if err := w.setAside(ctx, raw, "undecodable", err); err != nil {
					return b, err
				}
				continue
			}
			b.records = append(b.records, r)
			facts, bytes = facts+r.facts.Len(), bytes+len(raw)
		}
		b.last = next.Last
	}
	return b, nil
}

// writeUntilDone writes a batch, as often as it takes, and commits it. It
// returns an error only if ctx ended or the journal failed.
func (w *Writer) writeUntilDone(ctx context.Context, b batch) error {
	start := time.Now()
	if err := w.writeRecords(ctx, b.records); err != nil {
		return err
	}
	if err := w.source.Commit(b.last); err != nil {
		return fmt.Errorf("committing the journal: %w", err)
	}
	w.metrics.batches.Inc()
	w.metrics.duration.Observe(time.Since(start).Seconds())
	w.metrics.lag.Observe(time.Since(b.oldest).Seconds())
	return nil
}

// writeRecords writes records together. If the ledger refuses them for what
// they are, not for its state, they are split until the one that is refused
// stands alone and can be set aside: one bad record must not stop the rest.
func (w *Writer) writeRecords(ctx context.Context, records []record) error {
	if len(records) == 0 {
		return nil
	}
	facts := merge(records)
	err := w.retry(ctx, facts)
	if err == nil {
		w.count(facts)
		return nil
	}
	if !isRefusal(err) {
		return err
	}
	if len(records) == 1 {
		return w.setAside(ctx, records[0].raw, "refused", err)
	}
	half := len(records) / 2
	if err := w.writeRecords(ctx, records[:half]); err != nil {
		return err
	}
	return w.writeRecords(ctx, records[half:])
}

// retry repeats the identical batch until it is written or refused.
func (w *Writer) retry(ctx context.Context, f *usage.Facts) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 100*time.Millisecond, w.cfg.RetryMax
	failing := time.Time{}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := w.attempt(ctx, f)
		switch {
		case err == nil:
			w.metrics.attempts.WithLabelValues("written").Inc()
			if !failing.IsZero() {
				w.log.Info("ledger takes facts again", "away_seconds", time.Since(failing).Seconds())
			}
		case isRefusal(err):
			w.metrics.attempts.WithLabelValues("refused").Inc()
			err = backoff.Permanent(err)
		default:
			w.metrics.attempts.WithLabelValues("failed").Inc()
			if failing.IsZero() {
				failing = time.Now()
				w.log.Warn("ledger does not take facts; they stay in the journal", "facts", f.Len(), "error", err)
			}
		}
		return struct{}{}, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(0))
	return err
}

// attempt writes facts and what follows from them, once. It outlives ctx, so
// that a shutdown does not cut a write in half.
func (w *Writer) attempt(ctx context.Context, f *usage.Facts) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.AttemptTimeout)
	defer cancel()
	id, start := rand.Uint64(), time.Now()
	if err := w.ledger.AppendFacts(ctx, id, f); err != nil {
		return err
	}
	w.metrics.stage.WithLabelValues("facts").Observe(time.Since(start).Seconds())
	w.cache.add(f.Samples)
	d, start := w.derivation(), time.Now()
	if err := d.batch(ctx, id, f); err != nil {
		return err
	}
	w.metrics.stage.WithLabelValues("derive").Observe(time.Since(start).Seconds())
	conflicts := d.conflicts
	for {
		if err := w.writeDerived(ctx, d); err != nil {
			return err
		}
		stale, err := d.stale(ctx)
		if err != nil {
			return err
		}
		if len(stale) == 0 {
			w.metrics.conflicts.Add(float64(conflicts))
			return nil
		}
		w.metrics.stale.Add(float64(len(stale)))
		d = w.derivation()
		if err := d.again(ctx, stale); err != nil {
			return err
		}
	}
}

func (w *Writer) derivation() *derivation {
	return &derivation{ledger: w.ledger, deriver: w.deriver, guard: w.guard, counters: w.cache, window: w.cfg.ConflictWindow}
}

// writeDerived writes derived rows between the marks that make their buckets
// dirty and those that let a closer sum them.
func (w *Writer) writeDerived(ctx context.Context, d *derivation) error {
	// Without its monotonic clock, which stands still while a laptop sleeps:
	// the server, which judges a mark's age, does not.
	start, mark, buckets := time.Now().Round(0), rand.Uint64(), d.buckets()
	if err := w.ledger.OpenMarks(ctx, mark, buckets); err != nil {
		return err
	}
	if err := w.ledger.AppendDerived(ctx, &d.out); err != nil {
		return err
	}
	if err := w.ledger.CompleteMarks(ctx, mark, buckets, time.Since(start), rand.Uint64()); err != nil {
		return err
	}
	w.metrics.stage.WithLabelValues("charges").Observe(time.Since(start).Seconds())
	w.metrics.charges.WithLabelValues("written").Add(float64(len(d.out.Charges)))
	w.metrics.charges.WithLabelValues("gone").Add(float64(len(d.out.GoneCharges)))
	for i := range d.out.Charges {
		w.metrics.unpriced.Add(float64(d.out.Charges[i].UnpricedTokens))
	}
	return nil
}

func (w *Writer) count(f *usage.Facts) {
	w.metrics.facts.WithLabelValues("event").Add(float64(len(f.Events)))
	w.metrics.facts.WithLabelValues("sample").Add(float64(len(f.Samples)))
	w.metrics.facts.WithLabelValues("link").Add(float64(len(f.Links)))
	w.metrics.facts.WithLabelValues("end").Add(float64(len(f.Ends)))
	w.metrics.facts.WithLabelValues("outcome").Add(float64(len(f.Outcomes)))
	w.metrics.facts.WithLabelValues("annotation").Add(float64(len(f.Annotations)))
}

// setAside keeps a record that cannot be written in a file. It does not give
// up before ctx ends: a record that is neither written nor kept would be lost.
func (w *Writer) setAside(ctx context.Context, raw []byte, reason string, cause error) error {
	for {
		path, err := w.aside.Keep(raw)
		if err == nil {
			w.metrics.aside.WithLabelValues(reason).Inc()
			w.log.Error("record set aside; the figures lack its facts", "reason", reason, "file", path, "error", cause)
			return nil
		}
		w.log.Error("record can be neither written nor set aside; everything waits for it", "reason", reason, "error", errors.Join(cause, err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.cfg.RetryMax):
		}
	}
}

// merge makes one batch of records.
func merge(records []record) *usage.Facts {
	if len(records) == 1 {
		return &records[0].facts
	}
	out := &usage.Facts{}
	n := 0
	for i := range records {
		n += len(records[i].facts.Events)
	}
	out.Events = make([]usage.Event, 0, n)
	for i := range records {
		f := &records[i].facts
		out.Events = append(out.Events, f.Events...)
		out.Samples = append(out.Samples, f.Samples...)
		out.Links = append(out.Links, f.Links...)
		out.Ends = append(out.Ends, f.Ends...)
		out.Outcomes = append(out.Outcomes, f.Outcomes...)
		out.Annotations = append(out.Annotations, f.Annotations...)
	}
	return out
}
