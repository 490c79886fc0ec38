package ceiling

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func load(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Load("ours.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What nobody can have meant is refused with the line, the field and a remedy.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []string // each in the error
	}{
		"negative":            {"default:\n  task: {usd: -5}", []string{`ours.yaml:2: default.task.usd "-5" is negative: give a positive amount`, "none"}},
		"zero":                {"default:\n  hour:\n    tokens: 0", []string{`ours.yaml:3: default.hour.tokens "0" is zero`}},
		"zero with decimals":  {"default: {hour: {usd: 0.000}}", []string{`default.hour.usd "0.000" is zero`}},
		"below a nano-dollar": {"default: {task: {usd: 0.0000000001}}", []string{"more than 9 decimals"}},
		"exponent":            {"default: {task: {usd: 1e3}}", []string{"not a plain decimal number"}},
		"fraction of a token": {"default: {task: {tokens: 1.5}}", []string{"not a whole number"}},
		"hexadecimal":         {"default: {task: {runs: 0x10}}", []string{"not a whole number"}},
		"underscores":         {"default: {task: {tokens: 1__000}}", []string{"not a whole number"}},
		"absurd":              {"default: {task: {usd: 1000000000.1}}", []string{"is over 1000000000"}},
		"absurd tokens":       {"default: {task: {tokens: 99999999999999999999}}", []string{"is over 1000000000000000"}},
		"null":                {"default:\n  task: {usd: }", []string{"ours.yaml:2: default.task.usd is not a plain value"}},
		"list":                {"default: {task: {usd: [1]}}", []string{"default.task.usd is not a plain value"}},
		"yaml alias":          {"default: {task: {usd: &a 1, tokens: *a}}", []string{"default.task.tokens is not a plain value"}},
		"unknown key":         {"\ndefaults: {}", []string{`ours.yaml:2: the file has an unknown key "defaults"`, "the keys are thresholds"}},
		"unknown scope":       {"default:\n  day: {usd: 1}", []string{`ours.yaml:2: default has an unknown key "day"`}},
		"unknown dimension":   {"default: {session: {usd: 1}}", []string{`default.session has an unknown key "usd": the keys are subagents`}},
		"unknown selector":    {"overrides: [{repo: x, task: {usd: 1}}]", []string{`overrides[0] has an unknown key "repo"`}},
		"key twice":           {"quiet: 2h\nquiet: 3h", []string{`ours.yaml:2: the file has the key "quiet" twice, first at line 1`}},
		"limit twice":         {"default: {task: {usd: 1, usd: 2}}", []string{`default.task has the key "usd" twice`}},
		"selector twice": {
			"overrides:\n- {kind: a, task: {usd: 1}}\n- {kind: a, hour: {usd: 1}}",
			[]string{"ours.yaml:3: overrides[1] selects what ours.yaml:2 selects"},
		},
		"selects everything":   {"overrides: [{task: {usd: 1}}]", []string{"overrides[0] selects everything", "default"}},
		"no limit":             {"overrides: [{kind: a}]", []string{"overrides[0] sets no limit"}},
		"empty scope":          {"overrides: [{kind: a, task: {}}]", []string{"overrides[0] sets no limit"}},
		"empty label":          {`overrides: [{kind: "", task: {usd: 1}}]`, []string{"overrides[0].kind is not a plain value"}},
		"label with a space":   {`overrides: [{kind: "a ", task: {usd: 1}}]`, []string{`overrides[0].kind "a " is no label`}},
		"label of two lines":   {`overrides: [{kind: "a\nb", task: {usd: 1}}]`, []string{"is no label"}},
		"thresholds fall":      {"thresholds: [80, 50]", []string{`ours.yaml:1: thresholds[1] "50" is not over 80`}},
		"threshold twice":      {"thresholds: [80, 80]", []string{"is not over 80"}},
		"threshold of 0":       {"thresholds: [0]", []string{"is zero"}},
		"threshold over 1000":  {"thresholds: [1001]", []string{"is over 1000"}},
		"no thresholds":        {"thresholds: []", []string{"thresholds is not a list of one to 10"}},
		"threshold":            {"thresholds: 80", []string{"thresholds is not a list"}},
		"quiet without a unit": {"quiet: 2", []string{`quiet "2" is not a duration`}},
		"quiet of seconds":     {"quiet: 5s", []string{"out of range"}},
		"negative quiet":       {"quiet: -2h", []string{"out of range"}},
		"overrides mapping":    {"overrides: {kind: a}", []string{"overrides is not a list"}},
		"budget":               {"budgets: {fleet: 500}", []string{"budgets.fleet is not a mapping: give it keys: usd_per_month"}},
		"budget none":          {"budgets: {fleet: {usd_per_month: none}}", []string{"not a plain decimal number"}},
		"empty budget":         {"budgets: {projects: {demo: {}}}", []string{"budgets.projects.demo sets nothing"}},
		"budget per day":       {"budgets: {fleet: {usd_per_day: 1}}", []string{`unknown key "usd_per_day"`}},
		"project twice":        {"budgets:\n  projects:\n    a: {usd_per_month: 1}\n    a: {usd_per_month: 2}", []string{"ours.yaml:4:", "twice"}},
		"not yaml":             {"default: {\n", []string{"ours.yaml:"}},
		"text":                 {"hello", []string{"the file is not a mapping"}},
		"two documents":        {"quiet: 2h\n---\nquiet: 3h", []string{"more than one YAML document"}},
		"everything at once": {
			"thresholds: [0]\nquiet: x\ndefault: {task: {usd: -1}}\noverrides:\n- {kind: a, task: {usd: 0}}\nbudgets: {fleet: {}}\nmore: 1",
			[]string{"ours.yaml:1:", "ours.yaml:2:", "ours.yaml:3:", "ours.yaml:5:", "ours.yaml:6:", "ours.yaml:7:"},
		},
		"too large": {strings.Repeat("#", maxFile+1), []string{"over 1048576 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Load("ours.yaml", strings.NewReader(tt.text))
			if !errors.Is(err, ErrRefused) || c != nil {
				t.Fatalf("Load = %v, %v", c, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	c := load(t, `
thresholds: [10, 1000]
quiet: 90m
default:
  task: {usd: 0.000000001, tokens: 1_000, runs: none}
budgets:
  fleet: {usd_per_month: 20000}
  projects: {demo: {usd_per_month: 500.5}}
`)
	if len(c.Thresholds) != 2 || c.Thresholds[1] != 1000 || c.Quiet != 90*time.Minute {
		t.Errorf("thresholds %v, quiet %v", c.Thresholds, c.Quiet)
	}
	if c.Fleet != (Budget{20000e9, "ours.yaml:7"}) || c.Projects["demo"] != (Budget{500.5e9, "ours.yaml:8"}) {
		t.Errorf("budgets %v, %v", c.Fleet, c.Projects)
	}
	got := c.For("p", "k", "m")
	for d, want := range map[Dimension]Limit{
		TaskCost:         {1, "ours.yaml:5"},
		TaskTokens:       {1000, "ours.yaml:5"},
		TaskRuns:         {0, "ours.yaml:5"}, // lifted
		TaskOutputTokens: {2_000_000, shippedLine("  task:")},
		SessionSubagents: {50, shippedLine("  session:")},
	} {
		if got.Of(d) != want {
			t.Errorf("%v = %v, want %v", d, got.Of(d), want)
		}
	}
}

// The shipped file is what its comment says, and limits every dimension.
func TestShipped(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "default: {}\n"} {
		c := load(t, text)
		for _, d := range Dimensions() {
			if l := c.For("", "", "").Of(d); l.Value == 0 || !strings.HasPrefix(l.Source, "shipped:") {
				t.Errorf("%q: %v = %v", text, d, l)
			}
		}
		if l := c.For("", "", "").Of(TaskCost); usage.Nano(l.Value) != 25e9 {
			t.Errorf("%q: a task may spend %v", text, l)
		}
		if c.Quiet != 2*time.Hour || len(c.Thresholds) != 3 || c.Fleet.PerMonth != 0 || len(c.Projects) != 0 || len(c.Kinds()) != 0 {
			t.Errorf("%q: %+v", text, c)
		}
	}
}

func TestLoadFile(t *testing.T) {
	t.Parallel()
	if c, err := LoadFile(""); err != nil || c.Quiet != 2*time.Hour {
		t.Errorf("shipped: %+v, %v", c, err)
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	if _, err := LoadFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, []byte("quiet: 1h"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := LoadFile(path); err != nil || c.Quiet != time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
}

// Whatever is read is refused with its reason or obeys every rule.
func FuzzLoad(f *testing.F) {
	f.Add(string(shipped))
	f.Add("thresholds: [1, 2]\nquiet: 1h\noverrides: [{kind: a, task: {usd: 1.000000001, tokens: 1_0}}, {model: m, hour: {usd: none}}]")
	f.Add("budgets: {fleet: {usd_per_month: 1}, projects: {a: {usd_per_month: 2}}}")
	f.Add("default: {task: {usd: &a 1, tokens: *a}}")
	f.Add("a: b: c")
	f.Add("---\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Load("f", strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrRefused) || c != nil {
				t.Fatalf("%v, %v", c, err)
			}
			return
		}
		last := 0
		for _, p := range c.Thresholds {
			if p <= last || p > maxPercent {
				t.Fatalf("thresholds %v", c.Thresholds)
			}
			last = p
		}
		if last == 0 || c.Quiet < minQuiet || c.Quiet > maxQuiet {
			t.Fatalf("thresholds %v, quiet %v", c.Thresholds, c.Quiet)
		}
		for sel := range c.limits {
			got := c.For(sel.Project, sel.Kind, sel.Model)
			for _, d := range Dimensions() {
				l := got.Of(d)
				if l.Source == "" || l.Value > maxDollars*1e9 {
					t.Fatalf("%v of %v = %v", d, sel, l)
				}
			}
		}
		for p, b := range c.Projects {
			if p == "" || b.PerMonth <= 0 {
				t.Fatalf("budget of %q = %v", p, b)
			}
		}
	})
}

// shippedLine is the source of the line of the shipped file that begins so.
func shippedLine(prefix string) string {
	for i, line := range strings.Split(string(shipped), "\n") {
		if strings.HasPrefix(line, prefix) {
			return shippedName + ":" + strconv.Itoa(i+1)
		}
	}
	return "no such line"
}
