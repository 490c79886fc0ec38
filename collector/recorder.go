package collector

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Appender is the journal as the receivers see it.
type Appender interface {
	Append(ctx context.Context, record []byte) error
}

// Recorder makes facts durable: what it took may be acknowledged. It is safe
// for concurrent use.
type Recorder struct {
	journal Appender
	codec   *Codec
}

// NewRecorder returns a recorder.
func NewRecorder(journal Appender, codec *Codec) *Recorder { return &Recorder{journal, codec} }

// recordEvents is how many events one record holds at most: about 1 MB.
const recordEvents = 5000

// Record returns when the facts are durable in the journal. After an error
// some of them may be: sending all of them again is right, since each counts
// once. Errors are those of the journal.
func (r *Recorder) Record(ctx context.Context, f *usage.Facts) error {
	if len(f.Events) <= recordEvents {
		return r.append(ctx, f)
	}
	g, gctx := errgroup.WithContext(ctx)
	for rest := f.Events; len(rest) > 0; {
		n := min(recordEvents, len(rest))
		part := &usage.Facts{Events: rest[:n]}
		g.Go(func() error { return r.append(gctx, part) })
		rest = rest[n:]
	}
	if len(f.Samples)+len(f.Links)+len(f.Ends) > 0 {
		g.Go(func() error {
			return r.append(gctx, &usage.Facts{Samples: f.Samples, Links: f.Links, Ends: f.Ends})
		})
	}
	return g.Wait()
}

func (r *Recorder) append(ctx context.Context, f *usage.Facts) error {
	raw, err := r.codec.Encode(f)
	if err != nil {
		return fmt.Errorf("encoding facts: %w", err)
	}
	return r.journal.Append(ctx, raw)
}
