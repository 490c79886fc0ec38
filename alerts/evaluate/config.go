package evaluate

import (
	"time"

	"github.com/szymonrychu/tatara-ledger/alerts"
)

// Config says how often and how patiently. Start from [DefaultConfig].
type Config struct {
	// Every is the time between evaluations. Default 1 s.
	Every time.Duration
	// Fresh is how old the snapshot and the view may be for an answer. Default
	// 2 s: what callers are promised.
	Fresh time.Duration
	// Blind is how old the snapshot may be for an evaluation. Default 10 s: a
	// slow query is no reason to stop, and an older state is guarded against.
	Blind time.Duration
	// Resend is the time between two sendings of the same. Default 30 s. It must
	// be well below Hold.
	Resend time.Duration
	// Hold is for how long a sent alert fires by itself. Default 30 min. Too low
	// resolves what fires while the service restarts or Postgres is away; too high
	// leaves alerts of a service that is gone.
	Hold time.Duration
	// Settle is how long after its end an alert is sent as resolved. Default 12 s:
	// Fresh, after which a replica that has not seen the end sends nothing, and
	// the time that a request to Alertmanager may take. Sooner, a late one that
	// says firing would begin it anew.
	Settle time.Duration
	// Remember is for how long a resolved alert is sent as such. Default 15 min:
	// an Alertmanager that was away for less hears of it.
	Remember time.Duration
	// Judge names what tasks are judged by, ceilings and prices: replicas with
	// another one leave the judgement to those that started last. Required.
	Judge string
	// Links are where runbooks and dashboards are.
	Links alerts.Options
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	links := alerts.DefaultOptions()
	links.Dashboards = "" // of which Grafana is not known
	return Config{
		Every: time.Second, Fresh: 2 * time.Second, Blind: 10 * time.Second,
		Resend: 30 * time.Second, Hold: 30 * time.Minute, Settle: 12 * time.Second, Remember: 15 * time.Minute,
		Links: links,
	}
}
