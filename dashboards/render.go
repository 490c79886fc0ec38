package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/barchart"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Render is a dashboard as Grafana's JSON, for Grafana 10 to 13. The same
// dashboard gives the same bytes.
func Render(d *Dashboard) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	b := dashboard.NewDashboardBuilder(d.Title). //nolint:staticcheck // its successor is of Grafana 12 and later only
							Uid(d.UID).Description(d.Description).Tags([]string{Tag}).Timezone("browser").
							Time(d.From, "now").Refresh("1m").Tooltip(dashboard.DashboardCursorSyncCrosshair).Editable().
							Link(dashboard.NewDashboardLinkBuilder("Ledger").Type(dashboard.DashboardLinkTypeDashboards).
								Tags([]string{Tag}).IncludeVars(true).KeepTime(true)).
							Variables(variables(d)).
							Annotation(dashboard.NewAnnotationQueryBuilder().Name("Alerts and remarks").Datasource(datasource()).
								IconColor("orange").Target(newTarget(d.Annotations(), false)))
	id := uint32(0)
	for _, r := range d.Rows {
		id++
		b.WithRow(dashboard.NewRowBuilder(r.Title).Id(id))
		for i := range r.Panels {
			id++
			b.WithPanel(r.Panels[i].build(id))
		}
	}
	out, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", d.UID, err)
	}
	// The SDK's defaults would move both into a menu, which Grafana 10 and 11 do
	// not know.
	for i := range out.Links {
		out.Links[i].Placement = nil
	}
	for i := range out.Annotations.List {
		out.Annotations.List[i].Placement = nil
	}
	return encode(out)
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // it is no HTML, and SQL has < and >
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding JSON: %w", err)
	}
	return out.Bytes(), nil
}

func variables(d *Dashboard) []cog.Builder[dashboard.VariableModel] {
	out := []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("ds").Label("Ledger").Type(DatasourceType).
			Description("The ClickHouse datasource whose default database is the ledger's."),
	}
	for _, v := range d.Variables {
		out = append(out, v.build())
	}
	return out
}

func (v *Variable) build() cog.Builder[dashboard.VariableModel] {
	switch {
	case v.Text != "":
		return dashboard.NewTextBoxVariableBuilder(v.Name).Label(v.Label).Description(v.Description).
			DefaultValue(text(v.Text)).Current(option(v.Text))
	case len(v.Custom) > 0:
		var options []dashboard.VariableOption
		for _, o := range v.Custom {
			options = append(options, option(o))
		}
		return dashboard.NewCustomVariableBuilder(v.Name).Label(v.Label).Description(v.Description).
			Values(text(customValues(v.Custom))).Options(options).Current(options[0])
	}
	q := dashboard.NewQueryVariableBuilder(v.Name).Label(v.Label).Description(v.Description).
		Datasource(datasource()).Query(text(v.Query.SQL)).Definition(v.Query.SQL).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged)
	if v.Multi {
		q.Multi(true).IncludeAll(true).Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
	}
	return q
}

func text(s string) dashboard.StringOrMap { return dashboard.StringOrMap{String: &s} }

func option(s string) dashboard.VariableOption {
	v := dashboard.StringOrArrayOfString{String: &s}
	return dashboard.VariableOption{Text: v, Value: v}
}

func (p *Panel) build(id uint32) cog.Builder[dashboard.Panel] {
	w, h := p.size()
	switch p.Kind {
	case Stat:
		return stat.NewPanelBuilder().Id(id).Title(p.Title).Description(p.Description).Span(w).Height(h).
			Datasource(datasource()).WithTarget(newTarget(p.Query, false)).Unit(p.Unit).NoValue(p.Empty).
			GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeValue).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	case Table:
		return p.table(id, w, h)
	case BarChart:
		b := barchart.NewPanelBuilder().Id(id).Title(p.Title).Description(p.Description).Span(w).Height(h).
			Datasource(datasource()).WithTarget(newTarget(p.Query, false)).Unit(p.Unit).NoValue(p.Empty).Min(0).
			Orientation(common.VizOrientationHorizontal).Legend(legend()).Tooltip(tooltip())
		if p.Max > 0 {
			b.Max(p.Max)
		}
		return b
	case TimeSeries, Bars:
	}
	return p.series(id, w, h)
}

func (p *Panel) series(id, w, h uint32) cog.Builder[dashboard.Panel] {
	interval := p.Interval
	if interval == "" {
		interval = "5m"
	}
	b := timeseries.NewPanelBuilder().Id(id).Title(p.Title).Description(p.Description).Span(w).Height(h).
		Datasource(datasource()).WithTarget(newTarget(p.Query, true)).Unit(p.Unit).NoValue(p.Empty).Interval(interval).
		Legend(legend()).Tooltip(tooltip()).LineWidth(1).
		// A missing point is unknown, not zero: lines have gaps.
		SpanNulls(common.BoolOrFloat64{Bool: cog.ToPtr(false)})
	if p.Series != "" {
		b.DisplayName("${__field.labels." + p.Series + "}")
	}
	if p.Max > 0 {
		b.Min(0).Max(p.Max)
	}
	if p.Kind == Bars {
		b.DrawStyle(common.GraphDrawStyleBars).FillOpacity(80).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	} else {
		b.FillOpacity(5)
	}
	return b
}

func (p *Panel) table(id, w, h uint32) cog.Builder[dashboard.Panel] {
	b := table.NewPanelBuilder().Id(id).Title(p.Title).Description(p.Description).Span(w).Height(h).
		Datasource(datasource()).WithTarget(newTarget(p.Query, false)).Unit(p.Unit).NoValue(p.Empty).
		Filterable(true).
		Footer(common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{})) // required by the schema
	columns := slices.Collect(maps.Keys(p.Units))
	if p.Tasks != "" && !slices.Contains(columns, p.Tasks) {
		columns = append(columns, p.Tasks)
	}
	slices.Sort(columns)
	for _, c := range columns {
		var properties []dashboard.DynamicConfigValue
		if unit, ok := p.Units[c]; ok {
			properties = append(properties, dashboard.DynamicConfigValue{Id: "unit", Value: unit})
		}
		if c == p.Tasks {
			properties = append(properties, dashboard.DynamicConfigValue{Id: "links", Value: []map[string]any{{
				"title": "Show this task",
				"url":   "/d/" + UIDTask + "?${ds:queryparam}&${__url_time_range}&var-task=${__value.raw:percentencode}",
			}}})
		}
		b.OverrideByName(c, properties)
	}
	return b
}

func legend() cog.Builder[common.VizLegendOptions] {
	return common.NewVizLegendOptionsBuilder().ShowLegend(true).
		DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)
}

func tooltip() cog.Builder[common.VizTooltipOptions] {
	return common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)
}
