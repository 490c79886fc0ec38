package receive

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const pushURL = "/push?run_id=r&pod=p"

func TestPushIsRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	w := h.send(http.MethodPost, "/push?job=x&run_id=pod-0&pod=pod", `# HELP ccw_turn_tokens_total x
# TYPE ccw_turn_tokens_total counter
ccw_turn_tokens_total{kind="k",model="m",project="p",repo="",type="input"} 1.234567e+06
ccw_turn_tokens_total{kind="k",model="m",project="p",repo="",type="output"} 2
ccw_turn_tokens_total{kind="k",model="m",project="p",repo="",type="cache_read"} 3
ccw_turn_tokens_total{kind="k",model="m",project="p",repo="",type="cache_creation"} 4
ccw_turn_tokens_total{model="old wrapper",type="input"} 5
ccw_turn_tokens_total{model="m",type="input",shard="1",kind="new"} 6
ccw_turn_tokens_total{model="m",type="input",shard="2",kind="new"} 7
ccw_turn_tokens_total{model="m",type="thinking",kind="new"} 8
ccw_turn_cost_usd_total{kind="k"} 0.1
ccw_turns_total{result="complete"} 2
ccw_tool_calls_total{tool="Bash",outcome="error"} 3
# TYPE ccw_turn_duration_seconds histogram
ccw_turn_duration_seconds_bucket{le="1"} 1
ccw_turn_duration_seconds_bucket{le="+Inf"} 2
ccw_turn_duration_seconds_sum 5.5
ccw_turn_duration_seconds_count 2
ccw_metric_push_total{result="ok"} 4
ccw_metric_push_total{result="rejected"} 1
ccw_turn_cost_eur_total 1
ccw_turn_in_flight 1
up 1
`)
	if w.Code != http.StatusNoContent || w.Body.Len() != 0 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	want := usage.Counters{
		Tokens: []usage.TokenCounter{
			{Labels: usage.SampleLabels{Model: "old wrapper"}, Input: 5},
			{Labels: usage.SampleLabels{Kind: "new", Model: "m"}, Input: 13},
			{Labels: usage.SampleLabels{Project: "p", Kind: "k", Model: "m"}, Input: 1234567, Output: 2, CacheRead: 3, CacheWrite: 4},
		},
		Costs:     []usage.CostCounter{{Labels: usage.SampleLabels{Kind: "k"}, Cost: 1e8}},
		Turns:     []usage.TurnCounter{{Result: "complete", Count: 2}},
		Tools:     []usage.ToolCounter{{Tool: "Bash", Outcome: "error", Count: 3}},
		Durations: usage.DurationCounter{Count: 2, Sum: 5.5, Bounds: []float64{1}, Buckets: []uint64{1}},
	}
	got := h.memory.facts.Samples[0]
	if diff := cmp.Diff(want, got.Counters); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Run != "pod-0" || got.Pod != "pod" || got.Pushes != 5 || !got.Arrived.Equal(noon) {
		t.Errorf("%+v", got)
	}
	for reason, n := range map[string]float64{"unknown_token_type": 1, "unknown_family": 1} {
		if got := h.counter(t, "ignored_series_total", reason); got != n {
			t.Errorf("ignored{%s} is %v, want %v", reason, got, n)
		}
	}
	if h.counter(t, "facts_total", "push") != 1 {
		t.Error("the push was not counted")
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	tokens := `ccw_turn_tokens_total{model="m",type="input"} `
	histogram := func(buckets, sum, count string) string {
		return "# TYPE ccw_turn_duration_seconds histogram\n" + buckets + "ccw_turn_duration_seconds_sum " + sum + "\nccw_turn_duration_seconds_count " + count + "\n"
	}
	series := `ccw_turn_tokens_total{model="m", type="input"}`
	for _, c := range []struct{ name, body, reason, field string }{
		{"a broken line", tokens + "1\nccw_turns_total{", "unparsable", "body"},
		{"no newline at the end: cut off", tokens + "1", "unparsable", "body"},
		{"no text format", `{"a":1}` + "\n", "unparsable", "body"},
		{"a line of 1 MB", strings.Repeat("{", 1<<20-1) + "\n", "unparsable", "body"},
		{"invalid UTF-8", "ccw_turns_total{result=\"\xff\"} 1\n", "unparsable", "body"},
		{"NUL", "ccw_turns_total{result=\"a\x00b\"} 1\n", "nul_character", `ccw_turns_total{result}`},
		{"NaN", tokens + "NaN\n", "bad_value", series},
		{"infinite", tokens + "+Inf\n", "bad_value", series},
		{"negative", tokens + "-1\n", "bad_value", series},
		{"fractional", tokens + "1.5\n", "bad_value", series},
		{"2^63", tokens + "9223372036854775808\n", "bad_value", series},
		{"twice", tokens + "1\n" + tokens + "2\n", "duplicate_series", series},
		{"twice with its labels in another order", tokens + "1\n" + `ccw_turn_tokens_total{type="input",model="m"} 2` + "\n", "duplicate_series", series},
		{"together over the bound", tokens + "1e11\n" + `ccw_turn_tokens_total{model="m",type="input",x="1"} 1` + "\n", "bad_value", "ccw_turn_tokens_total"},
		{"label too long", `ccw_turns_total{result="` + strings.Repeat("x", 2000) + `"} 1` + "\n", "label_too_long", "ccw_turns_total{result}"},
		{"label name too long", `ccw_turns_total{` + strings.Repeat("x", 2000) + `="` + strings.Repeat("y", 2000) + `"} 1` + "\n", "label_too_long", excerpt("ccw_turns_total{" + strings.Repeat("x", 2000) + "}")},
		{"negative cost", "ccw_turn_cost_usd_total -1\n", "bad_value", "ccw_turn_cost_usd_total"},
		{"cost over a million", "ccw_turn_cost_usd_total 1000000.5\n", "bad_value", "ccw_turn_cost_usd_total"},
		{"costs together over a million", "ccw_turn_cost_usd_total{x=\"1\"} 1e6\nccw_turn_cost_usd_total{x=\"2\"} 1e-9\n", "bad_value", "ccw_turn_cost_usd_total"},
		{"turns together over the bound", "ccw_turns_total{x=\"1\"} 1e11\nccw_turns_total{x=\"2\"} 1\n", "bad_value", "ccw_turns_total"},
		{"tools together over the bound", "ccw_tool_calls_total{x=\"1\"} 1e11\nccw_tool_calls_total{x=\"2\"} 1\n", "bad_value", "ccw_tool_calls_total"},
		{"NaN cost", "ccw_turn_cost_usd_total NaN\n", "bad_value", "ccw_turn_cost_usd_total"},
		{"cost a histogram", "# TYPE ccw_turn_cost_usd_total histogram\nccw_turn_cost_usd_total_count 1\nccw_turn_cost_usd_total_sum 1\n", "bad_value", "ccw_turn_cost_usd_total"},
		{"durations a counter", "ccw_turn_duration_seconds 5\n", "bad_histogram", "ccw_turn_duration_seconds"},
		{"sum NaN", histogram("", "NaN", "1"), "bad_value", "ccw_turn_duration_seconds_sum"},
		{"sum negative", histogram("", "-1", "1"), "bad_value", "ccw_turn_duration_seconds_sum"},
		{"a bucket above the count", histogram("ccw_turn_duration_seconds_bucket{le=\"1\"} 3\n", "1", "2"), "bad_histogram", "ccw_turn_duration_seconds_bucket"},
		{
			"buckets that fall", histogram("ccw_turn_duration_seconds_bucket{le=\"1\"} 3\nccw_turn_duration_seconds_bucket{le=\"2\"} 2\n", "1", "3"),
			"bad_histogram", "ccw_turn_duration_seconds_bucket",
		},
		{
			"bounds out of order", histogram("ccw_turn_duration_seconds_bucket{le=\"2\"} 1\nccw_turn_duration_seconds_bucket{le=\"1\"} 1\n", "1", "3"),
			"bad_histogram", "ccw_turn_duration_seconds_bucket",
		},
		{"a bound twice", histogram("ccw_turn_duration_seconds_bucket{le=\"1\"} 1\nccw_turn_duration_seconds_bucket{le=\"1\"} 1\n", "1", "3"), "bad_histogram", "ccw_turn_duration_seconds_bucket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.refusedWith(t, h.send(http.MethodPost, pushURL, c.body), http.StatusBadRequest, "push", c.reason, c.field)
		})
	}
}

func TestPushIdentity(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct{ reason, field string }{
		"":                                     {"missing_run_id", "run_id"},
		"?pod=p":                               {"missing_run_id", "run_id"},
		"?run_id=":                             {"missing_run_id", "run_id"},
		"?run_id=%ff":                          {"invalid_utf8", "run_id"},
		"?run_id=r&pod=%ff":                    {"invalid_utf8", "pod"},
		"?run_id=" + strings.Repeat("r", 1025): {"label_too_long", "run_id"},
	} {
		for _, method := range []string{http.MethodPost, http.MethodDelete} {
			h := newHarness(t, nil)
			h.refusedWith(t, h.send(method, "/push"+query, ""), http.StatusBadRequest, "push", want.reason, want.field)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodOptions} {
		h := newHarness(t, nil)
		w := h.send(method, pushURL, "")
		h.refusedWith(t, w, http.StatusMethodNotAllowed, "push", "method", "")
		if w.Header().Get("Allow") != "POST, DELETE" {
			t.Errorf("%s: Allow is %q", method, w.Header().Get("Allow"))
		}
	}
	h := newHarness(t, nil)
	if w := h.send(http.MethodPost, pushURL, ""); w.Code != http.StatusNoContent || len(h.memory.facts.Samples) != 1 {
		t.Errorf("an empty snapshot: %d", w.Code)
	}
	if w := h.send(http.MethodDelete, pushURL, ""); w.Code != http.StatusNoContent || len(h.memory.facts.Ends) != 1 {
		t.Errorf("an end: %d", w.Code)
	}
}

// request is one of the wrapper's recorded requests.
type request struct {
	Body, Method, Query string
}

func recorded(t *testing.T) (requests []request) {
	t.Helper()
	dir := "../../simulate/testdata/wrapper-push"
	index, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(index, &requests); err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		if requests[i].Body == "" {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, requests[i].Body))
		if err != nil {
			t.Fatal(err)
		}
		requests[i].Body = string(body)
	}
	return requests
}

// sums are [input, output, cache_read, cache_creation] by task and model.
func sums(t *testing.T, facts *usage.Facts) map[string][4]uint64 {
	t.Helper()
	book, err := pricing.LoadFile("")
	if err != nil {
		t.Fatal(err)
	}
	d := derive.New(book, nil)
	runs := map[string]*derive.RunFacts{}
	of := func(run string) *derive.RunFacts {
		if runs[run] == nil {
			runs[run] = &derive.RunFacts{Run: run}
		}
		return runs[run]
	}
	for _, s := range facts.Samples {
		of(s.Run).Samples = append(of(s.Run).Samples, s)
	}
	for _, e := range facts.Ends {
		of(e.Run).Ends = append(of(e.Run).Ends, e)
	}
	out := map[string][4]uint64{}
	for _, f := range runs {
		for _, c := range d.Run(*f).Charges {
			k := c.Labels.Task + " " + c.Labels.Model
			v := out[k]
			for i, n := range []uint64{c.Tokens.Input, c.Tokens.Output, c.Tokens.CacheRead, c.Tokens.CacheWrite} {
				v[i] += n
			}
			out[k] = v
		}
	}
	return out
}

// TestRecordedPushes replays what the real wrapper pushed: any prefix gives
// what had arrived by then, and all of it again changes nothing.
func TestRecordedPushes(t *testing.T) {
	t.Parallel()
	const a, b, c = "wrapper-task-a ", "wrapper-task-b ", "wrapper-task-c "
	const opus, sonnet = "claude-opus-4-8", "claude-sonnet-5"
	// What each request adds to the truth of its task.
	steps := map[int]map[string][4]uint64{
		4:  {a + opus: {200, 4300, 120120, 20300}, a + sonnet: {40, 700, 12000, 900}},
		15: {b + sonnet: {300, 150, 0, 21000}},
	}
	final := map[string][4]uint64{
		a + opus: {200, 4300, 120120, 20300}, a + sonnet: {40, 700, 12000, 900},
		b + sonnet: {300, 150, 0, 21000}, c + sonnet: {52, 4100, 227000, 15600},
	}
	requests := recorded(t)
	h := newHarness(t, nil)
	at := noon
	h.now = func() time.Time { at = at.Add(200 * time.Millisecond); return at }
	last := map[string]map[string][4]uint64{} // of each life, as it was pushed
	life := map[string]int{}
	for round := range 2 {
		for i, r := range requests {
			n := i + 1
			if w := h.send(r.Method, "/push?"+r.Query, r.Body); w.Code != http.StatusNoContent {
				t.Fatalf("request %d: %d %s", n, w.Code, w.Body)
			}
			got := sums(t, &h.memory.facts)
			if round == 1 {
				if diff := cmp.Diff(final, got); diff != "" {
					t.Fatalf("request %d again (-want +got):\n%s", n, diff)
				}
				continue
			}
			if r.Method == http.MethodPost {
				// 15 is the old pod's, after the new one's first.
				q, _ := url.ParseQuery(r.Query)
				key := q.Get("pod")
				if n == 13 {
					life[key]++
				}
				if key += " " + string(rune('0'+life[key])); n == 15 {
					key = "wrapper-task-c 0"
				}
				alone := &usage.Facts{Samples: h.memory.facts.Samples[len(h.memory.facts.Samples)-1:]}
				last[key] = sums(t, alone)
			}
			want := map[string][4]uint64{}
			for _, of := range last {
				for k, v := range of {
					w := want[k]
					for i := range v {
						w[i] += v[i]
					}
					want[k] = w
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("after request %d (-want +got):\n%s", n, diff)
			}
			for k, v := range steps[n] {
				if got[k] != v {
					t.Errorf("after request %d: %s is %v, want %v", n, k, got[k], v)
				}
			}
		}
		if diff := cmp.Diff(final, sums(t, &h.memory.facts)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// FuzzExposition: no snapshot panics or is answered with a 5xx; one that is
// taken holds counts within their bounds.
func FuzzExposition(f *testing.F) {
	for _, s := range []string{
		"", "x", "ccw_turn_tokens_total{model=\"m\",type=\"input\"} 1\n", "ccw_turn_cost_usd_total 1e-7\n", "ccw_metric_push_total 1e11\n",
		"# TYPE ccw_turn_duration_seconds histogram\nccw_turn_duration_seconds_bucket{le=\"1\"} 1\nccw_turn_duration_seconds_sum 1\nccw_turn_duration_seconds_count 1\n",
		"# TYPE ccw_turn_duration_seconds summary\nccw_turn_duration_seconds{quantile=\"1\"} 1\n", "{\"ccw_turns_total\",result=\"a\"} 1\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h := newHarness(t, nil)
		w := h.send(http.MethodPost, pushURL, string(body))
		kept := len(h.memory.facts.Samples)
		if (w.Code != http.StatusNoContent || kept != 1) && (w.Code != http.StatusBadRequest || kept != 0) {
			t.Fatalf("%d, %d kept: %s", w.Code, kept, w.Body)
		}
		for _, s := range h.memory.facts.Samples {
			for _, c := range s.Counters.Tokens {
				if max(c.Input, c.Output, c.CacheRead, c.CacheWrite) > usage.MaxTokens {
					t.Errorf("%+v", c)
				}
			}
		}
	})
}
