// Package health keeps what the service says of itself in the ledger, so that
// dashboards of it need no Prometheus. What is kept are chosen series of the
// service's own registry, as samples, see [Names]. They go to ClickHouse
// directly: the journal is for what must not be lost, and is itself one of the
// things that are sampled. While ClickHouse is away there are no samples.
package health
