package dashboards

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Provisioning is how a Grafana finds the ledger and its dashboards by files.
type Provisioning struct {
	// Address is host:port of ClickHouse's HTTP interface, as Grafana reaches it.
	Address string
	Secure  bool // HTTPS
	// User may read the published views and nothing else.
	User, Database string
	// Folder is the title of Grafana's folder.
	Folder string
	// Path is the folder of the machine of Grafana that the dashboards are put in.
	Path string
}

// DefaultProvisioning is of a ClickHouse on the same machine.
func DefaultProvisioning() Provisioning {
	return Provisioning{
		Address: "127.0.0.1:8123", User: "grafana", Database: "tatara_ledger",
		Folder: "Tatara Ledger", Path: "/var/lib/grafana/dashboards/tatara-ledger",
	}
}

// PasswordVariable is the variable of Grafana's environment that has the password
// of the datasource's user, which is in no file.
const PasswordVariable = "TATARA_LEDGER_GRAFANA_PASSWORD"

// File is a rendered file, its name relative to where all of them go.
type File struct {
	Name string
	Text []byte
}

// Files are all that Grafana needs: the dashboards, the provisioning files of them
// and of the datasource, and for the sidecar of Grafana's chart a ConfigMap of each
// dashboard. The same options give the same bytes.
func Files(o Options, p Provisioning) ([]File, error) {
	var errs []error
	host, portText, err := net.SplitHostPort(p.Address)
	port, portErr := strconv.ParseUint(portText, 10, 16)
	if err != nil || portErr != nil || host == "" || port == 0 {
		errs = append(errs, fmt.Errorf("address %q of ClickHouse: want host:port", p.Address))
	}
	if p.User == "" || p.Database == "" || p.Folder == "" || p.Path == "" {
		errs = append(errs, errors.New("provisioning needs a user, a database, a folder and a path"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var out []File
	for _, d := range All(o) {
		raw, err := Render(&d)
		if err != nil {
			return nil, err
		}
		out = append(out, File{"dashboards/" + d.UID + ".json", raw})
		config, err := encodeYAML(configMap{
			APIVersion: "v1", Kind: "ConfigMap",
			Metadata: objectMeta{
				Name:        d.UID,
				Labels:      map[string]string{"grafana_dashboard": "1", "app.kubernetes.io/name": "tatara-ledger"},
				Annotations: map[string]string{"grafana_folder": p.Folder},
			},
			Data: map[string]string{d.UID + ".json": string(raw)},
		})
		if err != nil {
			return nil, err
		}
		out = append(out, File{"kubernetes/" + d.UID + ".yaml", config})
	}
	for _, f := range []struct {
		name string
		what any
	}{
		{"datasources", datasources{APIVersion: 1, Datasources: []datasourceFile{{
			Name: "Tatara Ledger", UID: "tatara-ledger", Type: DatasourceType, Access: "proxy",
			JSONData: jsonData{
				Host: escape(host), Port: int(port), Protocol: "http", Secure: p.Secure,
				Username: escape(p.User), DefaultDatabase: escape(p.Database),
			},
			SecureJSONData: map[string]string{"password": "${" + PasswordVariable + "}"},
		}}}},
		{"dashboards", providers{APIVersion: 1, Providers: []provider{{
			Name: "tatara-ledger", Folder: escape(p.Folder), Type: "file",
			Options: map[string]string{"path": escape(p.Path)},
		}}}},
	} {
		text, err := encodeYAML(f.what)
		if err != nil {
			return nil, err
		}
		out = append(out, File{"provisioning/" + f.name + "/tatara-ledger.yaml", text})
	}
	return out, nil
}

// escape keeps Grafana from taking a $ for a variable of its environment.
func escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }

type configMap struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   objectMeta        `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
}

type objectMeta struct {
	Name        string            `yaml:"name"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type datasources struct {
	APIVersion  int              `yaml:"apiVersion"`
	Datasources []datasourceFile `yaml:"datasources"`
}

type datasourceFile struct {
	Name           string            `yaml:"name"`
	UID            string            `yaml:"uid"`
	Type           string            `yaml:"type"`
	Access         string            `yaml:"access"`
	JSONData       jsonData          `yaml:"jsonData"`
	SecureJSONData map[string]string `yaml:"secureJsonData"`
}

type jsonData struct {
	Host            string `yaml:"host"`
	Port            int    `yaml:"port"`
	Protocol        string `yaml:"protocol"`
	Secure          bool   `yaml:"secure"`
	Username        string `yaml:"username"`
	DefaultDatabase string `yaml:"defaultDatabase"`
}

type providers struct {
	APIVersion int        `yaml:"apiVersion"`
	Providers  []provider `yaml:"providers"`
}

type provider struct {
	Name    string            `yaml:"name"`
	Folder  string            `yaml:"folder"`
	Type    string            `yaml:"type"`
	Options map[string]string `yaml:"options"`
}

func encodeYAML(v any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Made by tatara-ledger dashboards render.\n")
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
