// Package fleet shows the whole fleet to Prometheus: what the shipped rules need
// and no single replica counts for itself.
//
// [Exporter] serves the counters that wrappers push, ccw_turn_tokens_total and
// ccw_turn_cost_usd_total, over every run that was ever pushed. They are counted
// in Postgres from what the ledger says of each run, so that they never fall:
// not with a run that ends, a restart, another replica that takes over, or a
// derivation that changes its mind. One replica at a time exposes them.
//
// [Sources], [Budgets] and [Readiness] are gauges that every replica has.
package fleet
