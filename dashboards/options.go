package dashboards

import "github.com/szymonrychu/tatara-ledger/collector/pricing"

// Tag is on every dashboard: links between them go by it.
const Tag = "tatara-ledger"

// DatasourceType is the id of Grafana's ClickHouse datasource.
const DatasourceType = "grafana-clickhouse-datasource"

// Options are what differs between installations.
type Options struct {
	// Prices are what the comparison with another model is made by. They are part
	// of what is rendered: after a change of prices, render again.
	Prices []pricing.Row
}
