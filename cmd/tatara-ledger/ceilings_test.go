package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	upTo := func(n int) []uint64 {
		var out []uint64
		for i := range n {
			out = append(out, uint64(i+1))
		}
		return out
	}
	for _, tt := range []struct{ n, p, want int }{
		{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {3, 50, 2}, {20, 95, 19}, {21, 95, 20}, {100, 50, 50}, {100, 95, 95}, {100, 99, 99}, {101, 99, 100}, {1000, 99, 990},
	} {
		got := percentile(upTo(tt.n), tt.p)
		if got != uint64(tt.want) {
			t.Errorf("p%d of %d = %d, want %d", tt.p, tt.n, got, tt.want)
		}
		// By its definition, counted.
		if below := int(got); below*100 < tt.p*tt.n || (below-1)*100 >= tt.p*tt.n {
			t.Errorf("p%d of %d = %d: not the least that so many do not exceed", tt.p, tt.n, got)
		}
	}
}

func TestRoundUp(t *testing.T) {
	t.Parallel()
	for v, want := range map[uint64]uint64{
		0: 0, 1: 1, 99: 99, 100: 100, 101: 110, 1005: 1100, 990: 990, 991: 1000, 11_836_400_000: 12_000_000_000, 9_999: 10_000, 1<<63 - 1: 9_300_000_000_000_000_000,
	} {
		if got := roundUp(v); got != want {
			t.Errorf("%d: %d", v, got)
		}
	}
}

// hundred are tasks of a kind that cost 1 to 100 dollars.
func hundred(kind string) kindTasks {
	k := kindTasks{kind: kind}
	for i := range 100 {
		n := uint64(i + 1)
		k.tasks = append(k.tasks, clickhouse.TaskCost{
			Kind: kind, Project: []string{"demo", "other"}[i%2], Cost: usage.Some(usage.Nano(n) * 1e9), Tokens: n * 1000, OutputTokens: n, Runs: 1, HourCost: 1e9,
		})
	}
	return k
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	k := hundred("review")
	k.tasks = append(k.tasks, clickhouse.TaskCost{Kind: "review", Tokens: 1, UnpricedTokens: 7}) // of no project, and not priced
	configured, err := ceiling.Load("c", strings.NewReader("default: {task: {usd: 90, tokens: none}}\noverrides: [{project: demo, task: {usd: 50}}]"))
	if err != nil {
		t.Fatal(err)
	}
	s := k.suggest(configured)
	value := func(s string) *string { return &s }
	if s.Tasks != 101 || s.UnpricedTokens != 7 || len(s.Limits) != 7 {
		t.Errorf("%+v", s)
	}
	for _, want := range []limitSuggestion{
		{"task.usd", 100, "50", []candidate{
			{"p95", value("95"), 6},
			{"p99", value("99"), 2},
			{"max", value("100"), 1},
			{"configured", nil, 25 + 6}, // 51, 53 … 99 of demo; 90, 92 … 100 of other
		}},
		{"task.tokens", 101, "50000", []candidate{{"p95", value("95000"), 6}, {"p99", value("99000"), 2}, {"max", value("100000"), 1}, {"configured", nil, 0}}},
		{"task.runs", 100, "1", []candidate{{"p95", value("1"), 100}, {"p99", value("1"), 100}, {"max", value("1"), 100}, {"configured", value("20"), 0}}},
		{"hour.tokens", 101, "0", []candidate{{"p95", nil, 0}, {"p99", nil, 0}, {"max", nil, 0}, {"configured", value("80000000"), 0}}},
	} {
		i := slices.IndexFunc(s.Limits, func(l limitSuggestion) bool { return l.Limit == want.Limit })
		if i < 0 {
			t.Fatalf("no %s", want.Limit)
		}
		if diff := cmp.Diff(want, s.Limits[i]); diff != "" {
			t.Error(diff)
		}
	}
}

// TestCeilingsYAML: what is printed can be pasted, and means what it says.
func TestCeilingsYAML(t *testing.T) {
	t.Parallel()
	kinds := []kindTasks{{tasks: make([]clickhouse.TaskCost, 3)}, hundred("re: view #1"), hundred("yes"), hundred(" odd"), hundred("two\nlines"), {kind: "idle", tasks: make([]clickhouse.TaskCost, 1)}}
	var out strings.Builder
	if err := writeCeilings(&out, kinds, candidateP99, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	c, err := ceiling.Load("pasted", strings.NewReader(out.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	var named []string
	for _, k := range c.Kinds() {
		named = append(named, k.Name)
		for d, want := range map[ceiling.Dimension]uint64{
			ceiling.TaskCost: 100e9, ceiling.TaskTokens: 100_000, ceiling.TaskOutputTokens: 100, ceiling.HourCost: 1_100_000_000,
		} {
			if l := c.For("", k.Name, "").Of(d); l.Value != want || !strings.HasPrefix(l.Source, "pasted:") {
				t.Errorf("%s of %q: %+v", d, k.Name, l)
			}
		}
		if l := c.For("", k.Name, "").Of(ceiling.TaskRuns); l.Value != 20 {
			t.Errorf("runs of %q: %+v", k.Name, l)
		}
	}
	if diff := cmp.Diff([]string{"re: view #1", "yes"}, named); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{
		"# Left out: 3 tasks without a kind", "# Left out:  odd: ", "# Left out: two lines: ", "# Left out: idle: ",
		"# Of the tasks, 100, these limits would have stopped 1.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	out.Reset()
	if err := writeCeilings(&out, nil, candidateMax, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ceiling.Load("empty", strings.NewReader(out.String())); err != nil {
		t.Errorf("%v: %s", err, &out)
	}
}

// testLedger is a ledger in a database of its own, by the flags of a command.
func testLedger(t *testing.T, charges ...usage.Charge) []string {
	t.Helper()
	a := engines.ClickHouse(t)
	database := engines.Database(t)
	s, err := clickhouse.Open(clickhouse.Config{Addresses: []string{a.Addr}, Database: database, User: a.User, Password: a.Password.Reveal()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := clickhouse.Derived{Charges: charges}
	if d.Version, err = s.Clock(t.Context()); err != nil {
		t.Fatal(err)
	}
	var buckets []time.Time
	for i := range charges {
		buckets = append(buckets, charges[i].Bucket())
	}
	if err := errors.Join(s.OpenMarks(t.Context(), 1, buckets), s.AppendDerived(t.Context(), &d), s.CompleteMarks(t.Context(), 1, buckets, 0, 2)); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(a.Password.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--clickhouse", a.Addr, "--clickhouse-database", database, "--clickhouse-user", a.User, "--clickhouse-password-file", password}
}

func taskCharge(name, task, kind string, age time.Duration, cost usage.Nano) usage.Charge {
	return usage.Charge{
		ID: usage.Hash(name), FactRun: "fact-" + name, Feed: usage.FeedCall, Time: time.Now().Add(-age), Requests: 1,
		Labels:   usage.Labels{Task: task, Kind: kind, Project: "demo", Run: "run-" + name, Model: "m"},
		Tokens:   usage.Tokens{Input: 1, Output: 4, CacheRead: 2, CacheWrite: 3},
		Computed: usage.Some(cost), Cost: usage.Some(cost), Counted: true,
	}
}

func runCeilings(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := newCeilingsCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return outcome{stdout.String(), stderr.String(), err}
}

func TestCeilingsSuggest(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	ledger := testLedger(t,
		taskCharge("1", "a", "review", 40*day, 30e9), // counts, for the task goes on
		taskCharge("2", "a", "review", 2*day, 10e9),
		taskCharge("3", "b", "review", day, 2.5e9),
		taskCharge("4", "c", "implement", day, 1e9),
		taskCharge("5", "d", "", day, 1e9),
		taskCharge("6", "gone", "old", 50*day, 1e9),
	)
	suggest := func(args ...string) outcome {
		t.Helper()
		return runCeilings(t, append(append([]string{"suggest"}, ledger...), args...)...)
	}
	o := suggest("--format", "json")
	var s suggestions
	if err := json.Unmarshal([]byte(o.out), &s); err != nil || o.err != nil {
		t.Fatalf("%v, %v: %s", err, o.err, o.out)
	}
	got := map[string]string{}
	for _, k := range s.Kinds {
		for _, l := range k.Limits {
			text := l.P50
			for _, c := range l.Candidates {
				text += " " + *c.Value + ":" + string(rune('0'+c.Stopped))
			}
			got[k.Kind+" "+l.Limit] = text
		}
	}
	for name, want := range map[string]string{
		"review task.usd":       "2.5 40:1 40:1 40:1 25:1",
		"review task.tokens":    "10 20:1 20:1 20:1 200000000:0",
		"review task.runs":      "1 2:1 2:1 2:1 20:0",
		"review hour.usd":       "2.5 30:1 30:1 30:1 10:1",
		"implement task.usd":    "1 1:1 1:1 1:1 25:0",
		" task.output_tokens":   "4 4:1 4:1 4:1 2000000:0",
		"old task.usd":          "",
		"implement hour.tokens": "10 10:1 10:1 10:1 80000000:0",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}

	o = suggest("--kind", "review")
	for _, want := range []string{"│ review │ task.usd", "$40.00", "$25.00", "stopped by p95", "with all that they ever spent"} {
		if !strings.Contains(o.out, want) || o.err != nil {
			t.Errorf("no %q in\n%s%v", want, o.out, o.err)
		}
	}
	if strings.Contains(o.out, "implement") {
		t.Errorf("another kind:\n%s", o.out)
	}
	o = suggest("--format", "yaml", "--at", "max", "--since", "60d")
	c, err := ceiling.Load("pasted", strings.NewReader(o.out))
	if err != nil || o.err != nil || len(c.Kinds()) != 3 || c.For("", "review", "").Of(ceiling.TaskCost).Value != 41e9 {
		t.Errorf("%v, %v:\n%s", err, o.err, o.out)
	}
	if n := strings.Count(o.out, "these limits would have stopped 0.\n"); n != 3 { // over the most that was
		t.Errorf("%d kinds of which none is stopped:\n%s", n, o.out)
	}
	if o := suggest("--since", "1h"); o.err != nil || !strings.HasPrefix(o.out, "No task spent since ") {
		t.Errorf("%q, %v", o.out, o.err)
	}
	suggest("--kind", "revue").fails(t, 1, `no task of kind "revue"`)
	suggest("--format", "csv").fails(t, 2, "want table, json or yaml")
	suggest("--at", "p50").fails(t, 2, "want p95, p99 or max")
	suggest("--since", "month").fails(t, 2, "--since")
	suggest("--ceilings", "missing.yaml").fails(t, 1, "missing.yaml")
}

func TestCeilingsCheck(t *testing.T) {
	t.Parallel()
	ledger := testLedger(t, taskCharge("1", "a", "review", 24*time.Hour, 1e9), taskCharge("2", "b", "implement", 400*24*time.Hour, 1e9))
	dir := t.TempDir()
	check := func(text string, flags ...string) outcome {
		t.Helper()
		file := filepath.Join(dir, "ours.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return runCeilings(t, append([]string{"check", "--ceilings", file}, flags...)...)
	}
	if o := check("overrides:\n- {kind: review, task: {usd: 1}}\n- {kind: implement, task: {usd: 1}}", ledger...); o.err != nil || o.out != "ok: the ledger has seen all 2 kinds that are named\n" {
		t.Errorf("%q, %v", o.out, o.err)
	}
	o := check("overrides:\n- {kind: review, task: {usd: 1}}\n- {kind: revue, task: {usd: 1}}\n- {kind: fix, task: {usd: 1}}", ledger...)
	o.fails(t, 1, "2 of 3; those that were: implement, review")
	for _, want := range []string{`ours.yaml:3: the ledger has never seen kind "revue"`, `ours.yaml:4: the ledger has never seen kind "fix"`} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in %q", want, o.out)
		}
	}
	check("overrides:\n- {kind: x, task: {usd: 1}}", testLedger(t)...).fails(t, 1, "those that were: none yet")
	o = check("default:\n  task: {usd: -1}\n  day: {}\n", ledger...)
	o.fails(t, 1, "ours.yaml:2: ", "ours.yaml:3: ", "is negative", "unknown key")
	// A file without kinds needs no ledger, one with kinds does.
	nowhere := []string{"--data-dir", filepath.Join(dir, "nowhere")}
	if o := check("quiet: 1h", nowhere...); o.err != nil || o.out != "ok: no kinds are named\n" {
		t.Errorf("%q, %v", o.out, o.err)
	}
	check("overrides: [{kind: x, task: {usd: 1}}]", nowhere...).fails(t, 1, "no ledger in --data-dir")
	if o := runCeilings(t, append([]string{"check"}, nowhere...)...); o.err != nil || o.out != "ok: no kinds are named\n" {
		t.Errorf("the shipped ones: %q, %v", o.out, o.err)
	}
}

// TestCeilingsDocumented: the example of the documentation is a file of ceilings.
func TestCeilingsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ceilings.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ := strings.Cut(after, "```")
	c, err := ceiling.Load("docs/ceilings.md", strings.NewReader(example))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Kinds()) != 1 || c.For("demo", "implement", "").Of(ceiling.TaskCost).Value != 60e9 {
		t.Errorf("%+v of\n%s", c.Kinds(), example)
	}
}
