package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Check reports whether one thing that the service needs is there.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// checkWithin bounds a check; one that takes longer has failed.
const checkWithin = 3 * time.Second

// Readiness says which checks of this replica succeed.
type Readiness struct{ gauges }

// NewReadiness returns a collector that is registered already; [Readiness.Run]
// keeps it up to date: each check runs every 10 s, beside the others.
func NewReadiness(checks []Check, log *slog.Logger, reg prometheus.Registerer) *Readiness {
	ready := prometheus.NewDesc("tatara_ledger_ready",
		"1 if a readiness check of this replica succeeded when it last ran, 0 if it failed or took more than 3 s.", []string{"check"}, nil)
	took := prometheus.NewDesc("tatara_ledger_ready_duration_seconds",
		"How long a readiness check took when it last ran: for the stores one round trip.", []string{"check"}, nil)
	r := &Readiness{gauges{
		what: "readiness", every: 10 * time.Second, timeout: checkWithin, descs: []*prometheus.Desc{ready, took},
		read: func(ctx context.Context) ([]prometheus.Metric, error) {
			out := make([]prometheus.Metric, 2*len(checks))
			var all sync.WaitGroup
			for i, c := range checks {
				all.Go(func() {
					value, start := 1.0, time.Now()
					if c.Run(ctx) != nil {
						value = 0 // /readyz logs why
					}
					out[2*i], out[2*i+1] = gauge(ready, value, c.Name), gauge(took, time.Since(start).Seconds(), c.Name)
				})
			}
			all.Wait()
			return out, nil
		},
	}}
	r.register(log, reg)
	return r
}

// Run keeps the metrics up to date until ctx ends. It returns no error.
func (r *Readiness) Run(ctx context.Context) error { return r.run(ctx) }
