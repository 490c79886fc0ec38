package dashboards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	p := DefaultProvisioning()
	files, err := Files(options(t), p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Files(options(t), p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, again); diff != "" {
		t.Fatalf("rendered twice:\n%s", diff)
	}
	byName := map[string]string{}
	for _, f := range files {
		byName[f.Name] = string(f.Text)
	}
	for _, d := range All(options(t)) {
		raw := byName["dashboards/"+d.UID+".json"]
		var config configMap
		if err := yaml.Unmarshal([]byte(byName["kubernetes/"+d.UID+".yaml"]), &config); err != nil {
			t.Fatal(err)
		}
		if raw == "" || config.Data[d.UID+".json"] != raw || config.Metadata.Labels["grafana_dashboard"] != "1" || config.Metadata.Annotations["grafana_folder"] != p.Folder {
			t.Errorf("%s: the ConfigMap is not the dashboard: %+v", d.UID, config.Metadata)
		}
		if len(byName["kubernetes/"+d.UID+".yaml"]) > 1<<20 {
			t.Errorf("%s: larger than Kubernetes takes", d.UID)
		}
	}
	if len(files) != 2*len(All(options(t)))+2 {
		t.Errorf("%d files", len(files))
	}
	for _, name := range []string{"datasources", "dashboards"} {
		path := filepath.Join("testdata", "provisioning-"+name+".yaml")
		got := byName["provisioning/"+name+"/tatara-ledger.yaml"]
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s is not what is rendered (-update writes it):\n%s", path, diff)
		}
	}
}

// Grafana takes a $ in a provisioning file for its environment.
func TestFilesEscapeTheEnvironment(t *testing.T) {
	t.Parallel()
	p := DefaultProvisioning()
	p.Folder, p.Database = "Spend in $", "a$b"
	files, err := Files(options(t), p)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		if strings.HasPrefix(f.Name, "provisioning/") {
			all.Write(f.Text)
		}
	}
	for _, want := range []string{"folder: Spend in $$\n", "defaultDatabase: a$$b\n", "password: ${" + PasswordVariable + "}\n"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in\n%s", want, all.String())
		}
	}
}

func TestBadProvisioning(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*Provisioning){
		"no port":     func(p *Provisioning) { p.Address = "clickhouse" },
		"large port":  func(p *Provisioning) { p.Address = "clickhouse:70000" },
		"no host":     func(p *Provisioning) { p.Address = ":8123" },
		"no user":     func(p *Provisioning) { p.User = "" },
		"no database": func(p *Provisioning) { p.Database = "" },
		"no folder":   func(p *Provisioning) { p.Folder = "" },
		"no path":     func(p *Provisioning) { p.Path = "" },
	} {
		p := DefaultProvisioning()
		change(&p)
		if _, err := Files(options(t), p); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
