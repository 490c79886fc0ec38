package deliver

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/spf13/pflag"
)

// Config says where alerts go. Start from DefaultConfig; without an Alertmanager
// and a webhook, alerts go nowhere. It may hold passwords: it must not be
// printed.
type Config struct {
	// Alertmanagers are base URLs of Alertmanagers, separated by commas, such as
	// http://am-0:9093,https://user:password@ops.example/alertmanager. Every one
	// gets every alert, so all instances of a cluster belong here, and no load
	// balancer in front of them. Default empty.
	Alertmanagers string
	// AlertmanagerConfig is a file with further Alertmanagers, see [Config.Flags].
	// Default empty: none. It is read at the start; the files with passwords,
	// tokens and certificates that it names are read again when they change.
	AlertmanagerConfig string
	// Queue is how many alerts wait for each Alertmanager. Default 10 000, at
	// about 1 KiB each. Too low: alerts are dropped while an Alertmanager is away
	// and more than this fire.
	Queue int
	// Timeout bounds one request. Default 10 s. Too low: a slow Alertmanager
	// counts as failing and gets the same alerts again; too high: one that
	// swallows packets is noticed late.
	Timeout time.Duration
	// Webhook is the URL that transitions are posted to. Default empty: none.
	Webhook string
	// WebhookSecretFile holds what the posts are signed with: whsec_ and 24 to 64
	// bytes in base64. Several, one in each line, all sign, so that a receiver can
	// go from one to the next. Required with Webhook. It is read at the start.
	WebhookSecretFile string
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{Queue: 10_000, Timeout: 10 * time.Second} }

// Flags adds the flags of the configuration; c's values are their defaults.
func (c *Config) Flags(f *pflag.FlagSet) {
	f.StringVar(&c.Alertmanagers, "alertmanagers", c.Alertmanagers, "base `URLs` of all Alertmanagers, separated by commas, such as http://am-0:9093,http://am-1:9093")
	f.StringVar(&c.AlertmanagerConfig, "alertmanager-config", c.AlertmanagerConfig, "YAML `file` of Alertmanagers with TLS or tokens: alertmanagers with static_configs, as below alerting in Prometheus' own file")
	f.IntVar(&c.Queue, "alert-queue", c.Queue, "how many `alerts` wait for each Alertmanager; then the oldest is dropped")
	f.DurationVar(&c.Timeout, "alert-timeout", c.Timeout, "how long one request to an Alertmanager or the webhook may take")
	f.StringVar(&c.Webhook, "alert-webhook", c.Webhook, "`URL` to which each alert is posted when it begins and when it ends")
	f.StringVar(&c.WebhookSecretFile, "alert-webhook-secret-file", c.WebhookSecretFile, "`file` with the secret that signs those posts: whsec_ and 24 to 64 bytes in base64")
}

// Bounds of what a flag may say.
const (
	maxQueue   = 1_000_000
	maxTimeout = time.Minute // a second request must fit inside EndsAt
)

// Validate reports every mistake at once. Files are read by [New].
func (c *Config) Validate() error {
	_, err := c.listed()
	errs := []error{err}
	if c.Queue < 1 || c.Queue > maxQueue {
		errs = append(errs, fmt.Errorf("--alert-queue must be 1 to %d, not %d", maxQueue, c.Queue))
	}
	if c.Timeout <= 0 || c.Timeout > maxTimeout {
		errs = append(errs, fmt.Errorf("--alert-timeout must be positive and at most %s, not %s", maxTimeout, c.Timeout))
	}
	if c.Webhook != "" {
		if _, err := parseURL(c.Webhook); err != nil {
			errs = append(errs, fmt.Errorf("--alert-webhook: %w", err))
		}
	}
	if (c.Webhook == "") != (c.WebhookSecretFile == "") {
		errs = append(errs, errors.New("--alert-webhook and --alert-webhook-secret-file need each other: posts are signed"))
	}
	return errors.Join(errs...)
}

// target is one Alertmanager to be.
type target struct {
	scheme, host, path string // host with port; path without a slash at its end
	http               config.HTTPClientConfig
	timeout            time.Duration
}

// name is what it is called in metrics and logs.
func (t *target) name() string { return t.host + t.path }

// listed are the targets of Alertmanagers.
func (c *Config) listed() ([]target, error) {
	if strings.TrimSpace(c.Alertmanagers) == "" {
		return nil, nil
	}
	var out []target
	var errs []error
	for i, raw := range strings.Split(c.Alertmanagers, ",") {
		t, err := parseTarget(strings.TrimSpace(raw))
		if err != nil {
			errs = append(errs, fmt.Errorf("--alertmanagers, URL %d: %w", i+1, err))
			continue
		}
		t.timeout = c.Timeout
		out = append(out, t)
	}
	return out, errors.Join(errs...)
}

func parseTarget(raw string) (target, error) {
	u, err := parseURL(raw)
	if err != nil {
		return target{}, err
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return target{}, errors.New("an Alertmanager's URL has no query and no fragment")
	}
	t := target{scheme: u.Scheme, host: hostPort(u), path: strings.TrimRight(u.Path, "/"), http: config.DefaultHTTPClientConfig}
	if strings.HasSuffix(t.path, apiPath) {
		return target{}, fmt.Errorf("leave %s out: it is added", apiPath)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		t.http.BasicAuth = &config.BasicAuth{Username: u.User.Username(), Password: config.Secret(password)}
	}
	return t, nil
}

// parseURL never repeats what may be a password: net/url's errors do.
func parseURL(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, errors.New("is empty: remove the comma or give a URL")
	}
	scheme, _, ok := strings.Cut(raw, "://")
	if !ok {
		if strings.Contains(raw, "@") {
			return nil, errors.New("has no scheme: put http:// or https:// before it")
		}
		return nil, fmt.Errorf("%[1]q has no scheme: write http://%[1]s or https://%[1]s", raw)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("is no URL: in a user or password, encode characters such as @, / and % as %40, %2F and %25")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("its scheme is %q: it must be http or https", scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("names no host")
	}
	return u, nil
}

// hostPort is the host of a URL with the port that it means.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
