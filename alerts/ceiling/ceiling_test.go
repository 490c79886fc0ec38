package ceiling

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func TestFor(t *testing.T) {
	t.Parallel()
	c := load(t, `overrides:
- {kind: implement, task: {usd: 50}, hour: {usd: 20}}
- {project: demo, kind: review, model: claude-opus-5, task: {usd: 5}}
- {project: demo, task: {usd: 7}}
- {model: claude-opus-5, task: {usd: 9, tokens: 11}}
- {kind: implement, model: claude-opus-5, task: {usd: none}}
`)
	for _, tt := range []struct {
		project, kind, model string
		d                    Dimension
		value                uint64
		source               string
	}{
		{"", "", "", TaskCost, 25e9, shippedLine("  task:")},
		{"other", "plan", "x", TaskCost, 25e9, shippedLine("  task:")},
		{"other", "implement", "x", TaskCost, 50e9, "ours.yaml:2"},
		{"demo", "implement", "x", TaskCost, 7e9, "ours.yaml:4"},           // project before kind
		{"demo", "implement", "x", HourCost, 20e9, "ours.yaml:2"},          // which the project says nothing of
		{"demo", "review", "claude-opus-5", TaskCost, 5e9, "ours.yaml:3"},  // three fields
		{"demo", "review", "claude-opus-5", TaskTokens, 11, "ours.yaml:5"}, // each limit by itself
		{"demo", "implement", "claude-opus-5", TaskCost, 0, "ours.yaml:6"}, // two fields before one, and lifted
		{"demo", "implement", "claude-opus-5", TaskTokens, 11, "ours.yaml:5"},
		{"", "review", "claude-opus-5", TaskCost, 9e9, "ours.yaml:5"},
		{"demo", "review", "claude-opus-5-20260724", TaskCost, 7e9, "ours.yaml:4"}, // names are exact
	} {
		got := c.For(tt.project, tt.kind, tt.model).Of(tt.d)
		if want := (Limit{tt.value, tt.source}); got != want {
			t.Errorf("For(%q, %q, %q) %v = %v, want %v", tt.project, tt.kind, tt.model, tt.d, got, want)
		}
	}
}

// The winner is the most specific one by the rule in words, for random files.
func TestForIsMostSpecific(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func() string { return []string{"", "a", "b"}[rnd.IntN(3)] }
	for range 300 {
		type entry struct {
			Selector
			limits map[Dimension]uint64 // 0 is none
			line   int
		}
		var entries []entry
		var text strings.Builder
		text.WriteString("overrides:\n")
		seen := map[Selector]bool{{}: true}
		for range 12 {
			e := entry{Selector{pick(), pick(), pick()}, map[Dimension]uint64{}, len(entries) + 2}
			if seen[e.Selector] {
				continue
			}
			seen[e.Selector] = true
			e.limits[[]Dimension{TaskRuns, HourRuns}[rnd.IntN(2)]] = uint64(rnd.IntN(9))
			text.WriteString("- {")
			for k, v := range map[string]string{"project": e.Project, "kind": e.Kind, "model": e.Model} {
				if v != "" {
					fmt.Fprintf(&text, "%s: %s, ", k, v)
				}
			}
			for d, v := range e.limits {
				value := fmt.Sprint(v)
				if v == 0 {
					value = "none"
				}
				fmt.Fprintf(&text, "%s: {runs: %s}}\n", d.Scope(), value)
			}
			entries = append(entries, e)
		}
		if len(entries) == 0 {
			continue
		}
		c := load(t, text.String())
		task := Selector{pick(), pick(), pick()}
		for _, d := range []Dimension{TaskRuns, HourRuns} {
			base, _ := Load("", nil)
			want, best := base.For("", "", "").Of(d), -1
			for _, e := range entries {
				v, sets := e.limits[d]
				matches := (e.Project == "" || e.Project == task.Project) && (e.Kind == "" || e.Kind == task.Kind) && (e.Model == "" || e.Model == task.Model)
				rank := 0
				for weight, field := range map[int]string{104: e.Project, 102: e.Kind, 101: e.Model} {
					if field != "" {
						rank += weight
					}
				}
				if sets && matches && rank > best {
					want, best = Limit{v, fmt.Sprintf("ours.yaml:%d", e.line)}, rank
				}
			}
			if got := c.For(task.Project, task.Kind, task.Model).Of(d); got != want {
				t.Fatalf("%v of %v = %v, want %v in\n%s", d, task, got, want, &text)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	c := load(t, `overrides:
- {kind: review, task: {usd: 1}}
- {project: demo, task: {usd: 1}}
- {kind: plan, task: {usd: 1}}






- {project: demo, kind: plan, task: {usd: 1}}
`)
	want := []Kind{{"plan", "ours.yaml:4"}, {"review", "ours.yaml:2"}}
	if diff := cmp.Diff(want, c.Kinds()); diff != "" {
		t.Error(diff)
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	base := load(t, "").For("", "", "")
	usd, tokens, output := usage.Nano(3e9), uint64(4), uint64(5)
	got := base.With(Override{USD: &usd, Tokens: &tokens, OutputTokens: &output})
	for _, d := range Dimensions() {
		want := base.Of(d)
		if v, ok := map[Dimension]uint64{TaskCost: 3e9, TaskTokens: 4, TaskOutputTokens: 5}[d]; ok {
			want = Limit{v, OverrideSource}
		}
		if got.Of(d) != want {
			t.Errorf("%v = %v, want %v", d, got.Of(d), want)
		}
	}
	if base.With(Override{}) != base {
		t.Error("an empty override changes the ceiling")
	}
	for _, d := range Dimensions() {
		if l := base.With(Override{USD: &usd, Exempt: true}).Of(d); l != (Limit{Source: OverrideSource}) {
			t.Errorf("exempt: %v = %v", d, l)
		}
	}
}

func TestOverrideValidate(t *testing.T) {
	t.Parallel()
	usd, tokens := usage.Nano(1), uint64(MaxCount)
	if err := (Override{USD: &usd, Tokens: &tokens}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (Override{Exempt: true}).Validate(); err != nil {
		t.Error(err)
	}
	usd, tokens = -1, 0
	many := uint64(MaxCount + 1)
	err := Override{USD: &usd, Tokens: &tokens, OutputTokens: &many}.Validate()
	if !errors.Is(err, ErrOverride) {
		t.Fatal(err)
	}
	for _, field := range []string{"refused: usd ", "refused: tokens ", "refused: output_tokens "} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v lacks %q", err, field)
		}
	}
}

func TestCrossed(t *testing.T) {
	t.Parallel()
	shipped := []int{50, 80, 100}
	for _, tt := range []struct {
		limit, value uint64
		thresholds   []int
		want         []int
	}{
		{25e9, 0, shipped, nil},
		{25e9, 12_499_999_999, shipped, nil},
		{25e9, 12_500_000_000, shipped, []int{50}},
		{25e9, 19_999_999_999, shipped, []int{50}},
		{25e9, 20_000_000_000, shipped, []int{50, 80}},
		{25e9, 25_000_000_000, shipped, shipped},
		{3, 1, []int{33, 34}, []int{33}}, // a third is over 33 % and under 34 %
		{1, 1, []int{1000}, nil},
		{1, 10, []int{1000}, []int{1000}},
		{0, math.MaxUint64, shipped, nil}, // no limit
		{math.MaxUint64, math.MaxUint64, shipped, shipped},
		{math.MaxUint64, math.MaxUint64 - 1, shipped, []int{50, 80}},
		{math.MaxUint64, math.MaxUint64, []int{-1, 101}, nil},
	} {
		if got := Crossed(tt.limit, tt.value, tt.thresholds); !slices.Equal(got, tt.want) {
			t.Errorf("Crossed(%d, %d, %v) = %v, want %v", tt.limit, tt.value, tt.thresholds, got, tt.want)
		}
	}
}

// The arithmetic is that of integers of any size.
func FuzzCrossed(f *testing.F) {
	f.Add(uint64(25e9), uint64(20e9), 80)
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), 1000)
	f.Fuzz(func(t *testing.T, limit, value uint64, threshold int) {
		of := func(a uint64, b int) *big.Int {
			return new(big.Int).Mul(new(big.Int).SetUint64(a), big.NewInt(int64(b)))
		}
		want := limit > 0 && threshold >= 0 && of(value, 100).Cmp(of(limit, threshold)) >= 0
		if got := len(Crossed(limit, value, []int{threshold})) == 1; got != want {
			t.Errorf("Crossed(%d, %d, %d) = %v", limit, value, threshold, got)
		}
	})
}

func TestDimensions(t *testing.T) {
	t.Parallel()
	alerts := map[string]bool{}
	for _, d := range Dimensions() {
		if d.Alert() == "" || alerts[d.Alert()] {
			t.Errorf("%v has the alert %q", d, d.Alert())
		}
		alerts[d.Alert()] = true
	}
	if len(alerts) != len(names) {
		t.Errorf("%d alerts of %d dimensions", len(alerts), len(names))
	}
	if got := TaskCost.Format(12_500_000_000); got != "$12.5" {
		t.Error(got)
	}
	if got := HourTokens.Format(12_500_000_000); got != "12500000000" {
		t.Error(got)
	}
	if got := HourCost.Format(math.MaxUint64); got != "18446744073709551615" {
		t.Error(got)
	}
}

func BenchmarkFor(b *testing.B) {
	c, err := Load("ours.yaml", strings.NewReader("overrides:\n- {kind: implement, task: {usd: 50}}\n- {project: demo, task: {usd: 5}}"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if c.For("demo", "implement", "claude-opus-5").Of(TaskCost).Value != 5e9 {
			b.Fatal("wrong")
		}
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	of := func(text string) string {
		t.Helper()
		c, err := Load("f", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return c.Fingerprint()
	}
	const text = "default: {task: {usd: 30}}\noverrides: [{kind: review, task: {usd: 3}}, {project: p, hour: {runs: none}}]\n"
	if of(text) != of("# a comment\n\noverrides: [{project: p, hour: {runs: none}}, {kind: review, task: {usd: 3.00}}]\ndefault: {task: {usd: 30}}\n") {
		t.Error("the order of a file makes a difference")
	}
	seen := map[string]string{of(text): text}
	for _, other := range []string{
		"", strings.Replace(text, "30", "31", 1), strings.Replace(text, "review", "refine", 1), strings.Replace(text, "none", "7", 1),
		strings.Replace(text, "kind: review", "model: review", 1), text + "quiet: 3h\n", text + "thresholds: [50, 100]\n",
	} {
		f := of(other)
		if was, ok := seen[f]; ok {
			t.Errorf("%q is like %q", other, was)
		}
		seen[f] = other
	}
}
