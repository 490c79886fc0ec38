package collector

import (
	"context"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Ledger is what the writer and the closer need of the store. All methods may
// be repeated after an error.
type Ledger interface {
	Clock(ctx context.Context) (uint64, error)

	AppendFacts(ctx context.Context, batch uint64, f *usage.Facts) error
	Contested(ctx context.Context, batch uint64, since time.Time) ([]usage.ID, error)
	ContestedOf(ctx context.Context, runs, sessions []string) ([]usage.ID, error)
	EventsByID(ctx context.Context, ids []usage.ID) ([]usage.Event, error)
	AppendDisputes(ctx context.Context, version uint64, disputes []clickhouse.Dispute) error
	Links(ctx context.Context, runs, sessions []string) ([]usage.Link, error)
	SampledRuns(ctx context.Context, runs []string) ([]string, error)
	SampleHeads(ctx context.Context, runs []string) ([]usage.Sample, error)
	Counters(ctx context.Context, samples []usage.Sample, use func(usage.ID, usage.Counters)) error
	Ends(ctx context.Context, runs []string) (map[string][]usage.End, error)
	CalledModels(ctx context.Context, runs, sessions []string) (byRun, bySession map[string][]string, err error)
	Events(ctx context.Context, runs, sessions []string, use func([]usage.Event) error) error
	Fingerprints(ctx context.Context, runs, sessions []string) (map[string]uint64, error)

	PushedCharges(ctx context.Context, runs []string, from time.Time) ([]usage.Charge, error)
	PushedActivity(ctx context.Context, runs []string, from time.Time) ([]usage.Activity, error)
	LabelValues(ctx context.Context) ([]clickhouse.LabelValue, error)
	AddLabelValues(ctx context.Context, values []clickhouse.LabelValue) error
	OpenMarks(ctx context.Context, id uint64, buckets []time.Time) error
	AppendDerived(ctx context.Context, d *clickhouse.Derived) error
	CompleteMarks(ctx context.Context, id uint64, buckets []time.Time, took time.Duration, fresh uint64) error

	CloseBuckets(ctx context.Context, q clickhouse.Quiet, limit int) (int, error)
	CloseHours(ctx context.Context, q clickhouse.Quiet, limit int) (int, error)
	DirtyBuckets(ctx context.Context) (uint64, error)
}
