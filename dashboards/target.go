package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
)

// target is a query as the ClickHouse datasource wants it, for which the SDK has
// no type.
type target struct {
	RefID      string               `json:"refId"`
	Datasource common.DataSourceRef `json:"datasource"`
	EditorType string               `json:"editorType"`
	// PluginVersion keeps the datasource from migrating the query, which it does
	// with what was made by a version below 4.
	PluginVersion string `json:"pluginVersion"`
	RawSQL        string `json:"rawSql"`
	// Format is 0 for a time series and 1 for a table.
	Format    int    `json:"format"`
	QueryType string `json:"queryType"`
}

func newTarget(q Query, series bool) target {
	t := target{
		RefID: "A", Datasource: datasource(), EditorType: "sql", PluginVersion: "4.14.1",
		RawSQL: q.SQL, Format: 1, QueryType: "table",
	}
	if series {
		t.Format, t.QueryType = 0, "timeseries"
	}
	return t
}

// datasource is the one that the variable ds names.
func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr(DatasourceType), Uid: cog.ToPtr("${ds}")}
}

// ImplementsDataqueryVariant marks the type for the SDK.
func (target) ImplementsDataqueryVariant() {}

// DataqueryType is the type of the datasource.
func (target) DataqueryType() string { return DatasourceType }

// Equals reports whether other is the same query.
func (t target) Equals(other variants.Dataquery) bool {
	o, ok := other.(target)
	return ok && t.Datasource.Equals(o.Datasource) && t.RefID == o.RefID && t.EditorType == o.EditorType &&
		t.PluginVersion == o.PluginVersion && t.RawSQL == o.RawSQL && t.Format == o.Format && t.QueryType == o.QueryType
}

// Validate has nothing to refuse: the query is checked before it gets here.
func (target) Validate() error { return nil }

// Build is the target itself, so that it serves as its own builder.
func (t target) Build() (variants.Dataquery, error) { return t, nil }
