// Package bridge serves ClickHouse's HTTP interface over the embedded engine
// of package chdb, so that clickhouse-go, Grafana's datasource, curl and any
// other HTTP client can use it as if it were a ClickHouse server.
//
// Guarantees. A statement answered with 200 and a complete body has run; an
// acknowledged INSERT survives a kill of this process. Settings, the current
// database and temporary tables of a request end with it: every request has an
// engine connection of its own. Bodies and results are streamed, so memory
// does not grow with them. A client that goes away has its query killed.
//
// There are two accounts. The owner may do everything. The restricted one may
// read the published views and what is needed to list them; see guard.go for
// how that is enforced.
//
// Non-goals: the native TCP protocol, sessions (session_id), clusters.
package bridge
