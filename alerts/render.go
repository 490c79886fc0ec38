package alerts

import (
	"bytes"
	"fmt"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

const header = "# Made by tatara-ledger alerts render.\n"

// ruleFile and its parts are Prometheus' own form. Its package rulefmt would
// bring the query engine into the program to marshal ten fields; promtool is what
// checks them.
type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name     string      `yaml:"name"`
	Interval string      `yaml:"interval,omitempty"`
	Rules    []ruleEntry `yaml:"rules"`
}

type ruleEntry struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// manifest is a PrometheusRule of the Prometheus operator.
type manifest struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       ruleFile `yaml:"spec"`
}

type metadata struct {
	Name   string            `yaml:"name"`
	Labels map[string]string `yaml:"labels"`
}

// Rules is a rules file for Prometheus.
func Rules(o Options) ([]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return encode(rendered(o))
}

// PrometheusRule is the same rules as a manifest for the Prometheus operator.
func PrometheusRule(o Options) ([]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return encode(manifest{
		APIVersion: "monitoring.coreos.com/v1",
		Kind:       "PrometheusRule",
		Metadata:   metadata{Name: "tatara-ledger", Labels: map[string]string{"app.kubernetes.io/name": "tatara-ledger"}},
		Spec:       rendered(o),
	})
}

func rendered(o Options) ruleFile {
	var out ruleFile
	for _, g := range Groups(o) {
		group := ruleGroup{Name: g.Name}
		if g.Every > 0 {
			group.Interval = model.Duration(g.Every).String()
		}
		for _, r := range g.Rules {
			group.Rules = append(group.Rules, r.entry(o))
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

func (r Rule) entry(o Options) ruleEntry {
	if r.Record != "" {
		return ruleEntry{Record: r.Record, Expr: r.Expr}
	}
	e := ruleEntry{
		Alert: r.Alert, Expr: r.Expr,
		Labels: map[string]string{"severity": r.Severity, "system": System, "component": r.Component},
		Annotations: map[string]string{
			"summary": r.Summary, "description": r.Description, "runbook_url": o.RunbookURL(r.Alert),
		},
	}
	if link := o.DashboardURL(r.Dashboard, r.Query); link != "" {
		e.Annotations["dashboard_url"] = link
	}
	if r.For > 0 {
		e.For = model.Duration(r.For).String()
	}
	return e
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(header)
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding YAML: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encoding YAML: %w", err)
	}
	return out.Bytes(), nil
}
