package receive

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// TestCallFields: one bad field refuses its call, names the field and counts
// the reason.
func TestCallFields(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10<<20)
	for _, c := range []struct {
		name, call, reason, field string
	}{
		{"no object", `1`, "wrong_type", ""},
		{"a string", `"x"`, "wrong_type", ""},
		{"null", `null`, "wrong_type", ""},
		{"cut off", `{"ts":"2026-11-30T11:00:00Z"`, "unparsable", ""},
		{"trailing garbage", oneCall(``) + ` x`, "unparsable", ""},
		{"a trailing brace", oneCall(``) + `}`, "unparsable", ""},
		{"two objects on a line", oneCall(``) + oneCall(``), "unparsable", ""},
		{"a name without a value", `{"ts"}`, "unparsable", "ts"},
		{"duplicate key", oneCall(`,"id":"a","id":"b"`), "unparsable", "id"},
		{"invalid UTF-8", oneCall(`,"task":"` + "\xff" + `"`), "unparsable", "task"},
		{"a lone surrogate", oneCall(`,"task":"\ud800"`), "unparsable", "task"},
		{"NUL", oneCall(`,"task":"a\u0000b"`), "nul_character", "task"},
		{"no ts", `{"model":"m"}`, "missing_ts", "ts"},
		{"ts null", `{"ts":null}`, "missing_ts", "ts"},
		{"ts in 1970", `{"ts":"1970-01-01T00:00:00Z"}`, "too_old", "ts"},
		{"ts in 2100", `{"ts":"2100-01-01T00:00:00Z"}`, "in_future", "ts"},
		{"ts a number", `{"ts":1764500000}`, "wrong_type", "ts"},
		{"ts without a zone", `{"ts":"2026-11-30T11:00:00"}`, "bad_time", "ts"},
		{"ts empty", `{"ts":""}`, "bad_time", "ts"},
		{"unknown field", oneCall(`,"colour":"red"`), "unknown_field", "colour"},
		{"deep nesting", oneCall(`,"x":` + strings.Repeat("[", 100_000)), "unknown_field", "x"},
		{"deep nesting in a field", oneCall(`,"task":` + strings.Repeat("[", 100_000)), "wrong_type", "task"},
		{"label of 10 MB", oneCall(`,"task":"` + long + `"`), "label_too_long", "task"},
		{"label of 10 MB of escapes", oneCall(`,"task":"` + strings.Repeat(`\u0061`, 1<<20) + `"`), "label_too_long", "task"},
		{"id of 1025 bytes", oneCall(`,"id":"` + long[:1025] + `"`), "label_too_long", "id"},
		{"label a number", oneCall(`,"model":1`), "wrong_type", "model"},
		{"label an object", oneCall(`,"repo":{}`), "wrong_type", "repo"},
		{"negative tokens", oneCall(`,"input_tokens":-1`), "bad_value", "input_tokens"},
		{"fractional tokens", oneCall(`,"output_tokens":1.5`), "bad_value", "output_tokens"},
		{"scientific tokens", oneCall(`,"output_tokens":1e3`), "bad_value", "output_tokens"},
		{"NaN tokens", oneCall(`,"cache_read_tokens":NaN`), "unparsable", "cache_read_tokens"},
		{"2^63 tokens", oneCall(`,"cache_write_tokens":9223372036854775808`), "bad_value", "cache_write_tokens"},
		{"10^11+1 tokens", oneCall(`,"input_tokens":100000000001`), "bad_value", "input_tokens"},
		{"a huge number", oneCall(`,"input_tokens":` + strings.Repeat("9", 1<<20)), "bad_value", "input_tokens"},
		{"tokens a string", oneCall(`,"input_tokens":"5"`), "wrong_type", "input_tokens"},
		{"tokens a flag", oneCall(`,"input_tokens":true`), "wrong_type", "input_tokens"},
		{"writes less than their parts", oneCall(`,"cache_write_tokens":1,"cache_write_5m_tokens":1,"cache_write_1h_tokens":1`), "bad_value", "cache_write_tokens"},
		{"parts over the bound together", oneCall(`,"cache_write_5m_tokens":1000000000000,"cache_write_1h_tokens":1`), "bad_value", "cache_write_5m_tokens"},
		{"web searches over 10^9", oneCall(`,"web_search_requests":1000000001`), "bad_value", "web_search_requests"},
		{"batch a string", oneCall(`,"batch":"true"`), "wrong_type", "batch"},
		{"batch a number", oneCall(`,"batch":1`), "wrong_type", "batch"},
		{"batch cut off", `{"batch":tru`, "unparsable", "batch"},
		{"speed a number", oneCall(`,"speed":1`), "wrong_type", "speed"},
		{"geo a list", oneCall(`,"inference_geo":["us"]`), "wrong_type", "inference_geo"},
		{"cost negative", oneCall(`,"cost_usd":-0.1`), "bad_value", "cost_usd"},
		{"cost no number", oneCall(`,"cost_usd":"a dollar"`), "bad_value", "cost_usd"},
		{"cost over a million", oneCall(`,"cost_usd":"1000000.01"`), "bad_value", "cost_usd"},
		{"cost with a huge exponent", oneCall(`,"cost_usd":1e999999999`), "bad_value", "cost_usd"},
		{"cost a flag", oneCall(`,"cost_usd":false`), "wrong_type", "cost_usd"},
		{"duration negative", oneCall(`,"duration_ms":-1`), "bad_value", "duration_ms"},
		{"duration over a month", oneCall(`,"duration_ms":1e12`), "bad_value", "duration_ms"},
		{"duration a string", oneCall(`,"duration_ms":"1s"`), "wrong_type", "duration_ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			w := h.send(http.MethodPost, "/v1/calls", c.call)
			a := answerOf(t, w)
			if w.Code != http.StatusBadRequest || a.Accepted != 0 || len(a.Rejected) != 1 {
				t.Fatalf("%d: %.500s", w.Code, w.Body)
			}
			if a.Rejected[0].Field != c.field || a.Rejected[0].Error == "" {
				t.Errorf("%+v, want field %q", a.Rejected[0], c.field)
			}
			if n := h.counter(t, "rejected_total", "call", c.reason); n != 1 {
				t.Errorf("rejected_total{call,%s} is %v: %.300s", c.reason, n, w.Body)
			}
			if w.Body.Len() > 4096 || h.memory.facts.Len() != 0 {
				t.Errorf("an answer of %d bytes, %d facts", w.Body.Len(), h.memory.facts.Len())
			}
		})
	}
}

func TestCallIsRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	w := h.send(http.MethodPost, "/v1/calls", `{"id":"i","ts":"2026-11-30T12:00:00.1239+01:00","project":"p","repo":"r","kind":"k","task":"t\u00e9\n","issue":"o/r#1",
		"run":"u","session":"s","model":"m","effort":"high","agent":"a","input_tokens":1,"output_tokens":2,"cache_read_tokens":3,
		"cache_write_tokens":9,"cache_write_5m_tokens":4,"cache_write_1h_tokens":5,"web_search_requests":1000000000,
		"speed":"fast","inference_geo":"us","batch":true,"cost_usd":"0.10","duration_ms":1500}`)
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	want := usage.Event{
		SourceID: "i", ID: usage.Hash("call", "i"), Feed: usage.FeedCall, Arrived: noon,
		Time: time.Date(2026, 11, 30, 11, 0, 0, 123e6, time.UTC),
		Labels: usage.Labels{
			Project: "p", Repo: "r", Kind: "k", Task: "té\n", Issue: "o/r#1", Run: "u", Session: "s", Model: "m", Effort: "high", Agent: "a",
		},
		Tokens:      usage.Tokens{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 9, CacheWrite5m: 4, CacheWrite1h: 5},
		WebSearches: 1e9, Speed: "fast", InferenceGeo: "us", Batch: true, Reported: usage.Some(1e8), Duration: 1500 * time.Millisecond,
	}
	// The content is stored: it may not change with the code.
	want.Content = usage.Hash("call content", "i", "1796036400123", "p", "r", "k", "té\n", "o/r#1", "u", "s", "m", "high", "a",
		"1", "2", "3", "9", "4", "5", "1000000000", "fast", "true", "us", "100000000", "1500000000")
	if diff := cmp.Diff(want, h.memory.facts.Events[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCallValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fields string
		want   func(*usage.Event)
	}{
		{``, func(*usage.Event) {}},
		{`,"id":null,"model":null,"input_tokens":null,"batch":null,"cost_usd":null,"duration_ms":null`, func(*usage.Event) {}},
		{`,"cost_usd":0`, func(e *usage.Event) { e.Reported = usage.Some(0) }},
		{`,"cost_usd":1.5e-3`, func(e *usage.Event) { e.Reported = usage.Some(1_500_000) }},
		{`,"cost_usd":"1.5E-3"`, func(e *usage.Event) { e.Reported = usage.Some(1_500_000) }},
		{`,"cost_usd":"\u0031"`, func(e *usage.Event) { e.Reported = usage.Some(1e9) }},
		{`,"cache_write_tokens":7`, func(e *usage.Event) { e.Tokens.CacheWrite = 7 }},
		{`,"cache_write_1h_tokens":7`, func(e *usage.Event) { e.Tokens.CacheWrite, e.Tokens.CacheWrite1h = 7, 7 }},
		{`,"cache_write_tokens":9,"cache_write_1h_tokens":7`, func(e *usage.Event) { e.Tokens.CacheWrite, e.Tokens.CacheWrite1h = 9, 7 }},
		{`,"input_tokens":100000000000`, func(e *usage.Event) { e.Tokens.Input = usage.MaxTokens }},
		{`,"batch":false`, func(*usage.Event) {}},
	} {
		h := newHarness(t, nil)
		if w := h.send(http.MethodPost, "/v1/calls", oneCall(c.fields)); w.Code != http.StatusOK {
			t.Errorf("%s: %s", c.fields, w.Body)
			continue
		}
		want := usage.Event{Feed: usage.FeedCall, Time: noon.Add(-time.Hour), Arrived: noon}
		c.want(&want)
		got := h.memory.facts.Events[0]
		if got.ID != got.Content {
			t.Errorf("%s: a call without an id is identified by its content", c.fields)
		}
		want.ID, want.Content = got.ID, got.Content
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.fields, diff)
		}
	}
}

// TestCallBodies: how calls are laid out, and what of a body is kept.
func TestCallBodies(t *testing.T) {
	t.Parallel()
	a, b, bad := oneCall(`,"id":"a"`), oneCall(`,"id":"b"`), `{"ts":"2026-11-30T11:00:00Z","input_tokens":-1}`
	for _, c := range []struct {
		name, body string
		status     int
		accepted   int
		rejected   []int
	}{
		{"one object", a, 200, 1, nil},
		{"pretty-printed", "{\n  \"ts\": \"2026-11-30T11:00:00Z\",\n  \"id\": \"a\"\n}\n", 200, 1, nil},
		{"lines", a + "\n" + b + "\n", 200, 2, nil},
		{"lines without the last newline", a + "\n" + b, 200, 2, nil},
		{"CRLF", a + "\r\n" + b + "\r\n", 200, 2, nil},
		{"blank lines do not count", "\n\n" + a + "\n\n" + bad + "\n", 200, 1, []int{1}},
		{"byte order mark", "\xef\xbb\xbf" + a, 200, 1, nil},
		{"array", "[" + a + "," + b + "]", 200, 2, nil},
		{"array over lines", "[\n" + a + ",\n" + b + "\n]\n", 200, 2, nil},
		{"array with one bad call", "[" + a + "," + bad + "," + b + "]", 200, 2, []int{1}},
		{"array with one that is no object", "[" + a + ",7]", 200, 1, []int{1}},
		{"array with a repeated field", "[" + a + `,{"id":"x","id":"y"},` + b + "]", 200, 2, []int{1}},
		{"array with invalid UTF-8", "[" + a + "," + oneCall(`,"task":"`+"\xff"+`"`) + "," + b + "]", 200, 2, []int{1}},
		{"pretty-printed with a repeated field", "{\n\"id\": \"x\",\n\"id\": \"y\"\n}", 400, 0, []int{0}},
		{"array in an array", "[[" + a + "]]", 400, 0, []int{0}},
		{"one broken line spoils only itself", a + "\n{\"ts\":\n" + b, 200, 2, []int{1}},
		{"the first line broken", "{\"ts\":\n" + b, 200, 1, []int{0}},
		{"all bad", bad + "\n" + bad, 400, 0, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			w := h.send(http.MethodPost, "/v1/calls", c.body)
			got := answerOf(t, w)
			var rejected []int
			for _, r := range got.Rejected {
				rejected = append(rejected, r.Index)
			}
			if w.Code != c.status || got.Accepted != c.accepted || !cmp.Equal(rejected, c.rejected) || len(h.memory.facts.Events) != c.accepted {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			if n := h.counter(t, "facts_total", "call"); n != float64(c.accepted) {
				t.Errorf("facts_total is %v", n)
			}
		})
	}
}

// TestCallBodiesRefusedWhole: nothing of these is kept.
func TestCallBodiesRefusedWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, reason string }{
		{"empty", "", "empty"},
		{"white space", " \r\n\t", "empty"},
		{"empty array", "[]", "empty"},
		{"array that ends early", "[" + oneCall("") + ",", "unparsable"},
		{"array with a syntax error", "[" + oneCall("") + "," + `{"ts" 1}]`, "unparsable"},
		{"array with trailing garbage", "[" + oneCall("") + "] x", "unparsable"},
		{"two arrays", "[" + oneCall("") + "][" + oneCall("") + "]", "unparsable"},
		{"deep nesting", strings.Repeat("[", 1<<20), "unparsable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.refusedWith(t, h.send(http.MethodPost, "/v1/calls", c.body), http.StatusBadRequest, "call", c.reason, "body")
		})
	}
}

func TestTooManyCalls(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	line := oneCall("") + "\n"
	h.refusedWith(t, h.send(http.MethodPost, "/v1/calls", strings.Repeat(line, maxPosted+1)), http.StatusRequestEntityTooLarge, "call", "too_large", "")
	w := h.send(http.MethodPost, "/v1/calls", strings.Repeat("x\n", 2000))
	if a := answerOf(t, w); len(a.Rejected) != maxRejected || h.counter(t, "rejected_total", "call", "unparsable") != 2000 {
		t.Errorf("%d named, %v counted", len(a.Rejected), h.counter(t, "rejected_total", "call", "unparsable"))
	}
}

// FuzzCalls: no body panics or is answered with a 5xx, and every call is
// either accepted or refused.
func FuzzCalls(f *testing.F) {
	for _, s := range []string{"", "[]", oneCall(""), "[" + oneCall("") + "]", oneCall("") + "\nx", `{"ts":"2026-11-30T11:00:00Z","cost_usd":1e5}`, "\xef\xbb\xbf{}", "[[[", "{\n\"ts\":null}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h := newHarness(t, nil)
		w := h.send(http.MethodPost, "/v1/calls", string(body))
		events := len(h.memory.facts.Events)
		if w.Code != http.StatusOK {
			if w.Code != http.StatusBadRequest || events != 0 {
				t.Fatalf("%d, %d kept: %s", w.Code, events, w.Body)
			}
			return
		}
		a := answerOf(t, w)
		if a.Accepted == 0 || a.Accepted != events {
			t.Fatalf("%d kept: %s", events, w.Body)
		}
		for i := range h.memory.facts.Events {
			e := &h.memory.facts.Events[i]
			if e.ID == (usage.ID{}) || e.Time.IsZero() || e.Tokens.Total() > 4*usage.MaxTokens || e.Reported.Nano < 0 {
				t.Errorf("%+v", e)
			}
		}
	})
}
