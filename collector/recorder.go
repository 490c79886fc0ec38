package collector

import (
	"context"
	"fmt"
	"slices"

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

// recordFacts is how many events one record holds at most: about 1 MB. So many
// outcomes or annotations may be longer; a journal holds those too.
const recordFacts = 5000

// Record returns when the facts are durable in the journal. After an error
// some of them may be: sending all of them again is right, since each counts
// once. Errors are those of the journal.
func (r *Recorder) Record(ctx context.Context, f *usage.Facts) error {
	if max(len(f.Events), len(f.Outcomes), len(f.Annotations)) <= recordFacts {
		return r.append(ctx, f)
	}
	g, gctx := errgroup.WithContext(ctx)
	add := func(part usage.Facts) { g.Go(func() error { return r.append(gctx, &part) }) }
	for events := range slices.Chunk(f.Events, recordFacts) {
		add(usage.Facts{Events: events})
	}
	for outcomes := range slices.Chunk(f.Outcomes, recordFacts) {
		add(usage.Facts{Outcomes: outcomes})
	}
	for annotations := range slices.Chunk(f.Annotations, recordFacts) {
		add(usage.Facts{Annotations: annotations})
	}
	if len(f.Samples)+len(f.Links)+len(f.Ends) > 0 {
		add(usage.Facts{Samples: f.Samples, Links: f.Links, Ends: f.Ends})
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
