package fleet

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// mostSources bounds the series: projects are open strings, and a source's is
// not folded.
const mostSources = 1000

// Sources says when each source was last heard, by any replica.
type Sources struct{ gauges }

// NewSources returns a collector that is registered already; [Sources.Run] keeps
// it up to date, every 15 s. list returns the sources, the most recently heard
// first; those beyond the first 1000 are left out and counted.
func NewSources(list func(ctx context.Context) ([]clickhouse.Source, error), log *slog.Logger, reg prometheus.Registerer) *Sources {
	heard := prometheus.NewDesc("tatara_ledger_source_last_heard_timestamp_seconds",
		"When a source was last heard: a fact of this feed and project arrived, at any replica.", []string{"feed", "project"}, nil)
	omitted := prometheus.NewDesc("tatara_ledger_source_omitted",
		"Sources whose last-heard time is not shown because there are more than 1000.", nil, nil)
	s := &Sources{gauges{
		what: "sources", every: 15 * time.Second, timeout: 10 * time.Second, descs: []*prometheus.Desc{heard, omitted},
		read: func(ctx context.Context) ([]prometheus.Metric, error) {
			sources, err := list(ctx)
			if err != nil {
				return nil, err
			}
			shown := sources[:min(len(sources), mostSources)]
			out := []prometheus.Metric{gauge(omitted, float64(len(sources)-len(shown)))}
			for i := range shown {
				out = append(out, gauge(heard, float64(shown[i].Last.UnixMilli())/1000, shown[i].Feed, shown[i].Project))
			}
			return out, nil
		},
	}}
	s.register(log, reg)
	return s
}

// Run keeps the metrics up to date until ctx ends. It returns no error.
func (s *Sources) Run(ctx context.Context) error { return s.run(ctx) }
