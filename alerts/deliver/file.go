package deliver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// fileConfig is the part of Prometheus' alerting configuration that lists
// Alertmanagers. What discovers or relabels them is refused as unknown.
type fileConfig struct {
	Alertmanagers []fileGroup `yaml:"alertmanagers"`
}

type fileGroup struct {
	Scheme     string         `yaml:"scheme"`
	PathPrefix string         `yaml:"path_prefix"`
	Timeout    model.Duration `yaml:"timeout"`
	APIVersion string         `yaml:"api_version"`
	Static     []struct {
		Targets []string `yaml:"targets"`
	} `yaml:"static_configs"`
	HTTP config.HTTPClientConfig `yaml:",inline"`
}

// UnmarshalYAML begins with Prometheus' defaults. In this older form of the
// interface the decoder stays strict.
func (g *fileGroup) UnmarshalYAML(unmarshal func(any) error) error {
	type plain fileGroup
	*g = fileGroup{HTTP: config.DefaultHTTPClientConfig}
	return unmarshal((*plain)(g))
}

// filed are the targets of the file of Alertmanagers.
func (c *Config) filed() ([]target, error) {
	if c.AlertmanagerConfig == "" {
		return nil, nil
	}
	out, err := c.readFile()
	if err != nil {
		return nil, fmt.Errorf("--alertmanager-config %s: %w", c.AlertmanagerConfig, err)
	}
	return out, nil
}

func (c *Config) readFile() ([]target, error) {
	f, err := os.Open(c.AlertmanagerConfig)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var file fileConfig
	decoder := yaml.NewDecoder(f)
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, withoutValues(err)
	}
	var out []target
	for i := range file.Alertmanagers {
		targets, err := file.Alertmanagers[i].targets(filepath.Dir(c.AlertmanagerConfig), c.Timeout)
		if err != nil {
			return nil, fmt.Errorf("alertmanagers[%d]: %w", i, err)
		}
		out = append(out, targets...)
	}
	if len(out) == 0 {
		return nil, errors.New("lists no Alertmanager: give alertmanagers, static_configs, targets")
	}
	return out, nil
}

func (g *fileGroup) targets(dir string, timeout time.Duration) ([]target, error) {
	if g.APIVersion != "" && g.APIVersion != "v2" {
		return nil, fmt.Errorf("api_version is %q: only v2 is spoken", g.APIVersion)
	}
	g.HTTP.SetDirectory(dir)
	if err := g.HTTP.Validate(); err != nil {
		return nil, err
	}
	timeout = cmp.Or(time.Duration(g.Timeout), timeout)
	if timeout <= 0 || timeout > maxTimeout {
		return nil, fmt.Errorf("timeout must be positive and at most %s, not %s", maxTimeout, timeout)
	}
	var out []target
	for _, static := range g.Static {
		for _, host := range static.Targets {
			t, err := parseTarget(cmp.Or(g.Scheme, "http") + "://" + host + "/" + strings.TrimPrefix(g.PathPrefix, "/"))
			if err != nil {
				return nil, fmt.Errorf("target %d: %w", len(out)+1, err)
			}
			if t.http.BasicAuth != nil {
				return nil, fmt.Errorf("target %d: a target is host:port; give the user as basic_auth", len(out)+1)
			}
			t.http, t.timeout = g.HTTP, timeout
			out = append(out, t)
		}
	}
	return out, nil
}

// withoutValues takes out of an error of the decoder the values that it
// repeats: one may be a password that stands where none belongs.
func withoutValues(err error) error {
	return errors.New(regexp.MustCompile("`[^`]*`").ReplaceAllString(err.Error(), "that"))
}
