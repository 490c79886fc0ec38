package simulate

import (
	"strings"
	"testing"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
)

func TestRefusedConfigurations(t *testing.T) {
	t.Parallel()
	fractional, err := pricing.Load("fractional.yaml", strings.NewReader("rows: [{model: fine, input: 0.0125}]"))
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"no push URL":                      func(c *Config) { c.PushURLs = nil },
		`push URL "ftp://x/": want http`:   func(c *Config) { c.PushURLs = []string{"ftp://x/"} },
		"without a query":                  func(c *Config) { c.PushURLs = []string{"http://x/?job=y"} },
		"reading the push URL":             func(c *Config) { c.PushURLs = []string{"http://x:y/"} },
		"pods is 0: want 1 to":             func(c *Config) { c.Pods = 0 },
		"turns is -1":                      func(c *Config) { c.Turns = -1 },
		"respawns is 8: want 0 to 7":       func(c *Config) { c.Respawns = 8 },
		"concurrency is 0":                 func(c *Config) { c.Concurrency = 0 },
		"no kinds":                         func(c *Config) { c.Kinds = nil },
		"no models":                        func(c *Config) { c.Models = nil },
		"a model has no name":              func(c *Config) { c.Models = []string{""} },
		"a negative interval":              func(c *Config) { c.Interval = -1 },
		"backoff from 0s":                  func(c *Config) { c.BackoffMin = 0 },
		"a fraction of a nano-dollar":      func(c *Config) { c.Prices, c.Models = fractional, []string{"fine"} },
		"model fine: row fine (fractional": func(c *Config) { c.Prices, c.Models = fractional, []string{"fine"} },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
