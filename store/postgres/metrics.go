package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	retries     prometheus.Counter
	unavailable prometheus.Counter
	lostReads   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, pool *pgxpool.Pool) *metrics {
	m := &metrics{
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_postgres_retries_total", Help: "Attempts that were repeated because Postgres was away or requests collided.",
		}),
		unavailable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_postgres_unavailable_total", Help: "Requests that were given up because Postgres did not come back in time.",
		}),
		lostReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_postgres_read_notes_dropped_total", Help: "Notes of reads of handoffs that the analytics miss because too many waited.",
		}),
	}
	reg.MustRegister(m.retries, m.unavailable, m.lostReads,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tatara_ledger_postgres_connections", Help: "Open connections of the pool.",
		}, func() float64 { return float64(pool.Stat().TotalConns()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tatara_ledger_postgres_connections_in_use", Help: "Connections of the pool that a request holds.",
		}, func() float64 { return float64(pool.Stat().AcquiredConns()) }),
	)
	return m
}
