package dashboards

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/szymonrychu/tatara-ledger/alerts"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// rendered are the JSON files of all dashboards by UID.
func rendered(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, d := range All(options(t)) {
		raw, err := Render(&d)
		if err != nil {
			t.Fatal(err)
		}
		out[d.UID] = raw
	}
	return out
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for uid, got := range rendered(t) {
		path := filepath.Join("testdata", uid+".json")
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what is rendered (-update writes it):\n%s", path, diff)
		}
	}
}

// strictTarget decodes a query and refuses what is unknown or missing.
func strictTarget(raw []byte) (variants.Dataquery, error) {
	var q target
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		return nil, err
	}
	if q.RefID == "" || q.RawSQL == "" || q.EditorType != "sql" || q.PluginVersion == "" || q.QueryType == "" ||
		q.Datasource.Type == nil || *q.Datasource.Type != DatasourceType || q.Datasource.Uid == nil {
		return nil, errors.New("a field of the query is missing")
	}
	return q, nil
}

// register tells the SDK of its own panels, and of the ClickHouse datasource.
func register() {
	plugins.RegisterDefaultPlugins()
	cog.NewRuntime().RegisterDataqueryVariant(variants.DataqueryConfig{
		Identifier: DatasourceType, DataqueryUnmarshaler: strictTarget, StrictDataqueryUnmarshaler: strictTarget,
	})
}

// failed is an error of a strict decoder, which returns a typed nil for none.
func failed(err error) bool {
	var errs cog.BuildErrors
	if errors.As(err, &errs) {
		return len(errs) > 0
	}
	return err != nil
}

// decode refuses JSON that Grafana's schemas do not know.
func decode(raw []byte) (*dashboard.Dashboard, error) { //nolint:staticcheck // as in Render
	strict := dashboard.NewDashboard()
	if err := strict.UnmarshalJSONStrict(raw); failed(err) {
		return nil, err
	}
	d := dashboard.NewDashboard()
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, err
	}
	if err := d.Validate(); failed(err) {
		return nil, err
	}
	for _, p := range d.Panels {
		if p.Panel == nil {
			continue
		}
		for _, q := range p.Panel.Targets {
			if _, ok := q.(target); !ok {
				return nil, fmt.Errorf("a query of the unknown datasource %s", q.DataqueryType())
			}
		}
	}
	var parts struct {
		Panels []struct {
			Type        string          `json:"type"`
			FieldConfig json.RawMessage `json:"fieldConfig"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, err
	}
	for _, p := range parts.Panels {
		if !slices.Contains([]string{"row", "timeseries", "stat", "table", "barchart"}, p.Type) {
			return nil, errors.New("unknown panel type " + p.Type)
		}
		if p.FieldConfig != nil {
			var config dashboard.FieldConfigSource
			if err := config.UnmarshalJSONStrict(p.FieldConfig); failed(err) {
				return nil, err
			}
		}
	}
	return d, nil
}

func TestStrictDecoding(t *testing.T) { //nolint:paralleltest // the SDK's registry is one per process
	register()
	for uid, raw := range rendered(t) {
		if _, err := decode(raw); err != nil {
			t.Errorf("%s: %v", uid, err)
		}
		for what, change := range map[string][2]string{
			"panel type":       {`"type": "table"`, `"type": "tables"`},
			"field":            {`"schemaVersion"`, `"schemaVersions"`},
			"option":           {`"noValue"`, `"noValues"`},
			"field of a query": {`"rawSql"`, `"rawSQLText"`},
			"datasource":       {`"type": "` + DatasourceType + `"`, `"type": "mysql"`},
		} {
			bad := bytes.ReplaceAll(raw, []byte(change[0]), []byte(change[1]))
			if bytes.Equal(bad, raw) {
				t.Fatalf("%s: no %s to change", uid, what)
			}
			if _, err := decode(bad); err == nil {
				t.Errorf("%s: a wrong %s is accepted", uid, what)
			}
		}
	}
}

// What every panel must have, of the JSON as Grafana gets it.
func TestIntent(t *testing.T) { //nolint:paralleltest // as above
	register()
	units := []string{USD, Tokens, Percent, Seconds, Bytes, Text, Time, "reqps"}
	for uid, raw := range rendered(t) {
		d, err := decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if *d.Uid != uid || !slices.Contains(d.Tags, Tag) || len(d.Links) != 1 || !d.Links[0].IncludeVars || !d.Links[0].KeepTime || d.Links[0].Tags[0] != Tag {
			t.Errorf("%s: UID, tag or links: %+v", uid, d.Links)
		}
		if v := d.Templating.List[0]; v.Name != "ds" || v.Type != "datasource" || *v.Query.String != DatasourceType {
			t.Errorf("%s: the first variable is %q", uid, v.Name)
		}
		if len(d.Annotations.List) != 1 || *d.Annotations.List[0].Datasource.Uid != "${ds}" {
			t.Errorf("%s: annotations: %+v", uid, d.Annotations.List)
		}
		ids := map[uint32]bool{}
		var bottom uint32
		for _, p := range d.Panels {
			if p.RowPanel != nil {
				ids[p.RowPanel.Id] = true
				continue
			}
			panel := p.Panel
			name := uid + "/" + *panel.Title
			if ids[*panel.Id] || panel.GridPos.X+panel.GridPos.W > 24 {
				t.Errorf("%s: id %d, %+v", name, *panel.Id, panel.GridPos)
			}
			ids[*panel.Id] = true
			if panel.GridPos.Y < bottom {
				t.Errorf("%s: above what comes before it", name)
			}
			bottom = panel.GridPos.Y
			config := panel.FieldConfig.Defaults
			if panel.Description == nil || len(*panel.Description) < 12 || config.NoValue == nil || *config.NoValue == "" {
				t.Errorf("%s: no description, or no text for nothing", name)
			}
			if config.Unit == nil || !slices.Contains(units, *config.Unit) {
				t.Errorf("%s: unit %v", name, config.Unit)
			}
			if len(panel.Targets) != 1 || *panel.Datasource.Uid != "${ds}" || *panel.Targets[0].(target).Datasource.Uid != "${ds}" {
				t.Errorf("%s: %d targets, or another datasource", name, len(panel.Targets))
			}
			if panel.Type == "timeseries" || panel.Type == "barchart" {
				options, err := json.Marshal(panel.Options)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(options, []byte(`"showLegend":true`)) || bytes.Contains(options, []byte(`"hidden"`)) || !bytes.Contains(options, []byte(`"mode":"multi"`)) {
					t.Errorf("%s: the legend or the tooltip is hidden: %s", name, options)
				}
			}
			// A dollar figure says so.
			if sql := panel.Targets[0].(target).RawSQL; strings.Contains(sql, "AS usd FROM") && *config.Unit != USD {
				t.Errorf("%s: dollars in %s", name, *config.Unit)
			}
		}
	}
}

// Macros take plain columns only: versions of the datasource differ in how they
// find the end of an argument.
func TestMacrosAreThoseOfEveryVersion(t *testing.T) {
	t.Parallel()
	macro := regexp.MustCompile(`\$__\w+`)
	known := []string{"$__timeFilter", "$__timeInterval", "$__fromTime", "$__toTime", "$__interval_s", "$__conditionalAll"}
	for _, d := range All(options(t)) {
		queries := []Query{d.Annotations()}
		for _, p := range d.Panels() {
			queries = append(queries, p.Query)
		}
		for _, v := range d.Variables {
			queries = append(queries, v.Query)
		}
		for _, q := range queries {
			for _, m := range macro.FindAllString(q.SQL, -1) {
				if !slices.Contains(known, m) {
					t.Errorf("%s: %s in %s", d.UID, m, q.SQL)
				}
			}
			// ClickHouse would filter by the alias, which begins before its bucket's rows.
			if strings.Contains(q.SQL, " AS time,") || strings.Contains(q.SQL, " AS time ") {
				t.Errorf("%s: the column time is hidden by an alias in %s", d.UID, q.SQL)
			}
			if strings.Contains(q.SQL, "--") || strings.Contains(q.SQL, "/*") {
				t.Errorf("%s: a comment in %s", d.UID, q.SQL)
			}
		}
	}
}

func TestAQueryOfWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"SELECT {cost_euro} FROM {.}", "SELECT {charges.cost_nano} FROM {.}", "SELECT 1 FROM {charges.}", "SELECT {label:nose} FROM {.}"} {
		d := spendDashboard()
		d.Rows[0].Panels[0].Query = query(clickhouse.ViewSpend, text)
		if _, err := Render(&d); err == nil {
			t.Errorf("%s: was rendered", text)
		}
		if _, err := d.Rows[0].Panels[0].Query.Expand(Choice{}); err == nil {
			t.Errorf("%s: was expanded", text)
		}
	}
}

// Every dashboard that an alert links to exists, and has the variables that it sets.
func TestLinksOfAlerts(t *testing.T) {
	t.Parallel()
	byUID := map[string]Dashboard{}
	for _, d := range All(options(t)) {
		byUID[d.UID] = d
	}
	links := map[string]string{alerts.TaskDashboard: "var-task="}
	for _, g := range alerts.Groups(alerts.DefaultOptions()) {
		for _, r := range g.Rules {
			if r.Alert != "" {
				links[r.Dashboard] += "&" + r.Query
			}
		}
	}
	for uid, q := range links {
		d, ok := byUID[uid]
		if !ok {
			t.Errorf("alerts link to %q, which is no dashboard", uid)
			continue
		}
		for _, m := range regexp.MustCompile(`var-(\w+)=`).FindAllStringSubmatch(q, -1) {
			if !slices.ContainsFunc(d.Variables, func(v Variable) bool { return v.Name == m[1] }) {
				t.Errorf("alerts set %s of %s, which it has not", m[1], uid)
			}
		}
	}
	if !slices.Contains(alerts.CeilingAlerts(), "TaskCostCeiling") {
		t.Error("the alert whose limits are shown has another name")
	}
}
