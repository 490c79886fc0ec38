// Package dashboards holds the dashboards of the ledger as Go values, and renders
// them for Grafana.
//
// A [Dashboard] is data: panels, each with one query over the published views of
// ClickHouse, variables and links. [Render] makes Grafana's JSON of it. What is
// rendered is deterministic: the same [Options] give the same bytes.
//
// Queries take the names of their columns from the store's list of published
// columns, so that one that names what does not exist fails to build; tests and
// [Check] run every query against an engine.
//
// Labels are data: whatever a project, repository, kind, model or task is called,
// it is quoted for SQL ([Query]) and encoded in links.
package dashboards
