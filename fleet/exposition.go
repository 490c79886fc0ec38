package fleet

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
)

// exposition is the counters of one scrape. Names and labels are those of the
// wrappers, so that queries of theirs work; the label source tells them apart
// where both are scraped.
type exposition struct {
	series       []store.FleetSeries
	tokens, cost *prometheus.Desc
}

func serve(w http.ResponseWriter, r *http.Request, series []store.FleetSeries) {
	ours := prometheus.Labels{"source": "tatara-ledger"}
	reg := prometheus.NewRegistry()
	reg.MustRegister(&exposition{
		series: series,
		tokens: prometheus.NewDesc("ccw_turn_tokens_total",
			"Tokens that all runs ever pushed, by class. Runs that are over stay in it.",
			[]string{"type", "model", "kind", "repo", "project"}, ours),
		cost: prometheus.NewDesc("ccw_turn_cost_usd_total",
			"US dollars that all runs ever pushed cost, by the prices at the time of arrival; what has no price, and was not reported in dollars, adds nothing.",
			[]string{"kind", "repo", "project"}, ours),
	})
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// Describe implements [prometheus.Collector].
func (e *exposition) Describe(ch chan<- *prometheus.Desc) {
	ch <- e.tokens
	ch <- e.cost
}

// types are the values of the wrapper's label type.
var types = [...]string{
	store.FleetInput: "input", store.FleetOutput: "output", store.FleetCacheRead: "cache_read", store.FleetCacheWrite: "cache_creation",
}

// Collect implements [prometheus.Collector].
func (e *exposition) Collect(ch chan<- prometheus.Metric) {
	for _, s := range e.series {
		switch {
		case s.Amount == store.FleetCost:
			ch <- prometheus.MustNewConstMetric(e.cost, prometheus.CounterValue, dollars(usage.Nano(s.Value)), s.Kind, s.Repo, s.Project)
		case int(s.Amount) < len(types):
			ch <- prometheus.MustNewConstMetric(e.tokens, prometheus.CounterValue, float64(s.Value), types[s.Amount], s.Model, s.Kind, s.Repo, s.Project)
		}
	}
}

// dollars is the nearest float, which is what Prometheus can hold.
func dollars(n usage.Nano) float64 { return float64(n) / 1e9 }
