// Package clickhouse keeps the ledger in ClickHouse: the facts, the charges
// derived from them, an exact rollup of the charges and the published views.
//
// It speaks to ClickHouse through clickhouse-go only and knows nothing of
// where the server runs. Every write may be repeated: facts collapse by
// identity, derived rows by identity and version, and the rollup is replaced
// whole bucket by whole bucket. docs/architecture.md says why sums are exact
// at every moment.
package clickhouse
