package deliver

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	cfg.Flags(f)
	if err := f.Parse([]string{
		"--alertmanagers=http://a:9093, https://u:p@b/am/", "--alertmanager-config=f", "--alert-queue=5", "--alert-timeout=3s",
		"--alert-webhook=https://hook.example/x", "--alert-webhook-secret-file=s",
	}); err != nil {
		t.Fatal(err)
	}
	want := Config{
		Alertmanagers: "http://a:9093, https://u:p@b/am/", AlertmanagerConfig: "f", Queue: 5, Timeout: 3 * time.Second,
		Webhook: "https://hook.example/x", WebhookSecretFile: "s",
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	targets, err := cfg.listed()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, target := range targets {
		names = append(names, target.name())
	}
	if diff := cmp.Diff([]string{"a:9093", "b:443/am"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string // all of an error's first line
	}{
		"no scheme":             {func(c *Config) { c.Alertmanagers = "http://a,am-1:9093" }, `--alertmanagers, URL 2: "am-1:9093" has no scheme: write http://am-1:9093 or https://am-1:9093`},
		"no scheme, a password": {func(c *Config) { c.Alertmanagers = "u:secret@am" }, `--alertmanagers, URL 1: has no scheme: put http:// or https:// before it`},
		"another scheme":        {func(c *Config) { c.Alertmanagers = "ftp://am" }, `--alertmanagers, URL 1: its scheme is "ftp": it must be http or https`},
		"a raw password":        {func(c *Config) { c.Alertmanagers = "http://u:se%cret@am" }, `--alertmanagers, URL 1: is no URL: in a user or password, encode characters such as @, / and % as %40, %2F and %25`},
		"a port in words":       {func(c *Config) { c.Alertmanagers = "http://u:secret@am:web" }, `--alertmanagers, URL 1: is no URL: in a user or password, encode characters such as @, / and % as %40, %2F and %25`},
		"no host":               {func(c *Config) { c.Alertmanagers = "http:///am" }, `--alertmanagers, URL 1: names no host`},
		"a comma too many":      {func(c *Config) { c.Alertmanagers = "http://am," }, `--alertmanagers, URL 2: is empty: remove the comma or give a URL`},
		"a query":               {func(c *Config) { c.Alertmanagers = "http://am?x=1" }, `--alertmanagers, URL 1: an Alertmanager's URL has no query and no fragment`},
		"the API's path":        {func(c *Config) { c.Alertmanagers = "http://am/x/api/v2/" }, `--alertmanagers, URL 1: leave /api/v2 out: it is added`},
		"no queue":              {func(c *Config) { c.Queue = 0 }, `--alert-queue must be 1 to 1000000, not 0`},
		"no time":               {func(c *Config) { c.Timeout = 0 }, `--alert-timeout must be positive and at most 1m0s, not 0s`},
		"too much time":         {func(c *Config) { c.Timeout = time.Hour }, `--alert-timeout must be positive and at most 1m0s, not 1h0m0s`},
		"an unsigned webhook":   {func(c *Config) { c.Webhook = "http://hook" }, `--alert-webhook and --alert-webhook-secret-file need each other: posts are signed`},
		"a secret for nothing":  {func(c *Config) { c.WebhookSecretFile = "s" }, `--alert-webhook and --alert-webhook-secret-file need each other: posts are signed`},
		"a webhook's scheme":    {func(c *Config) { c.Webhook, c.WebhookSecretFile = "hook/x", "s" }, `--alert-webhook: "hook/x" has no scheme: write http://hook/x or https://hook/x`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			tt.change(&cfg)
			err := cfg.Validate()
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file string
		want string   // in the error
		host []string // names, if there is none
	}{
		"two groups": {
			file: "alertmanagers:\n- scheme: https\n  path_prefix: /am/\n  timeout: 3s\n  api_version: v2\n  static_configs: [{targets: ['a:9093', b]}]\n  tls_config: {insecure_skip_verify: true}\n" +
				"- static_configs: [{targets: [c]}]\n  basic_auth: {username: u, password: p}\n",
			host: []string{"a:9093/am", "b:443/am", "c:80"},
		},
		"nothing":             {file: "alertmanagers: []", want: "lists no Alertmanager"},
		"an unknown key":      {file: "alertmanagers:\n- static_configs: [{targets: [a]}]\n  shceme: https\n", want: "line 3: field shceme not found"},
		"discovery":           {file: "alertmanagers:\n- dns_sd_configs: [{names: [a]}]\n", want: "field dns_sd_configs not found"},
		"a misplaced secret":  {file: "alertmanagers:\n- basic_auth: hunter2\n", want: "line 2: cannot unmarshal"},
		"two ways to sign in": {file: "alertmanagers:\n- static_configs: [{targets: [a]}]\n  bearer_token: hunter2\n  basic_auth: {username: u, password: hunter2}\n", want: "at most one of"},
		"an old API":          {file: "alertmanagers:\n- api_version: v1\n", want: `alertmanagers[0]: api_version is "v1"`},
		"a target with a user": {
			file: "alertmanagers:\n- static_configs: [{targets: ['u:hunter2@a']}]\n",
			want: "alertmanagers[0]: target 1: a target is host:port; give the user as basic_auth",
		},
		"too much time": {file: "alertmanagers:\n- timeout: 2m\n  static_configs: [{targets: [a]}]\n", want: "timeout must be positive and at most 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.AlertmanagerConfig = filepath.Join(t.TempDir(), "am.yaml")
			write(t, cfg.AlertmanagerConfig, tt.file)
			got, err := cfg.filed()
			if tt.want != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "--alertmanager-config "+cfg.AlertmanagerConfig) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q in it", err, tt.want)
				} else if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error shows a password: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, target := range got {
				names = append(names, target.name())
			}
			if diff := cmp.Diff(tt.host, names); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got[0].timeout != 3*time.Second || got[2].timeout != cfg.Timeout || got[2].http.BasicAuth == nil || !got[2].http.FollowRedirects {
				t.Errorf("got %+v", got)
			}
		})
	}
}
