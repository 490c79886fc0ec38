package receive

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func outcome(fields string) string {
	return `{"ts":"2026-11-30T11:00:00Z","task":"t","outcome":"delivered"` + fields + `}`
}

func annotation(fields string) string {
	return `{"ts":"2026-11-30T11:00:00Z","text":"x"` + fields + `}`
}

// TestOutcomeFields: one bad field refuses its outcome or annotation, names the
// field and counts the reason.
func TestOutcomeFields(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	tags := `,"tags":["` + strings.Repeat(`a","`, 32) + `a"]`
	for _, c := range []struct {
		name, path, body, feed, reason, field string
	}{
		{"outcome: no object", "outcomes", `1`, "outcome", "wrong_type", ""},
		{"outcome: no ts", "outcomes", `{"task":"t","outcome":"o"}`, "outcome", "missing_ts", "ts"},
		{"outcome: ts in 2100", "outcomes", `{"ts":"2100-01-01T00:00:00Z","task":"t","outcome":"o"}`, "outcome", "in_future", "ts"},
		{"outcome: ts in 1970", "outcomes", `{"ts":"1970-01-01T00:00:00Z","task":"t","outcome":"o"}`, "outcome", "too_old", "ts"},
		{"outcome: ts year 1", "outcomes", `{"ts":"0001-01-01T00:00:00Z","task":"t","outcome":"o"}`, "outcome", "too_old", "ts"},
		{"outcome: ts no time", "outcomes", `{"ts":"yesterday","task":"t","outcome":"o"}`, "outcome", "bad_time", "ts"},
		{"outcome: no task", "outcomes", `{"ts":"2026-11-30T11:00:00Z","outcome":"o"}`, "outcome", "missing_task", "task"},
		{"outcome: task null", "outcomes", `{"ts":"2026-11-30T11:00:00Z","task":null,"outcome":"o"}`, "outcome", "missing_task", "task"},
		{"outcome: no outcome", "outcomes", `{"ts":"2026-11-30T11:00:00Z","task":"t"}`, "outcome", "missing_outcome", "outcome"},
		{"outcome: outcome empty", "outcomes", `{"ts":"2026-11-30T11:00:00Z","task":"t","outcome":""}`, "outcome", "missing_outcome", "outcome"},
		{"outcome: outcome of 129 bytes", "outcomes", `{"ts":"2026-11-30T11:00:00Z","task":"t","outcome":"` + long[:129] + `"}`, "outcome", "label_too_long", "outcome"},
		{"outcome: task of 1025 bytes", "outcomes", `{"ts":"2026-11-30T11:00:00Z","outcome":"o","task":"` + long[:1025] + `"}`, "outcome", "label_too_long", "task"},
		{"outcome: detail of 4097 bytes", "outcomes", outcome(`,"detail":"` + long[:4097] + `"`), "outcome", "label_too_long", "detail"},
		{"outcome: detail an object", "outcomes", outcome(`,"detail":{}`), "outcome", "wrong_type", "detail"},
		{"outcome: id a number", "outcomes", outcome(`,"id":1`), "outcome", "wrong_type", "id"},
		{"outcome: repeated field", "outcomes", outcome(`,"task":"u"`), "outcome", "unparsable", "task"},
		{"outcome: field of a call", "outcomes", outcome(`,"model":"m"`), "outcome", "unknown_field", "model"},
		{"annotation: no ts", "annotations", `{"text":"x"}`, "annotation", "missing_ts", "ts"},
		{"annotation: no text", "annotations", `{"ts":"2026-11-30T11:00:00Z","tags":["a"]}`, "annotation", "missing_text", "text"},
		{"annotation: text of 4097 bytes", "annotations", `{"ts":"2026-11-30T11:00:00Z","text":"` + long[:4097] + `"}`, "annotation", "label_too_long", "text"},
		{"annotation: invalid UTF-8", "annotations", annotation(`,"project":"` + "\xff" + `"`), "annotation", "unparsable", "project"},
		{"annotation: tags a string", "annotations", annotation(`,"tags":"a"`), "annotation", "wrong_type", "tags"},
		{"annotation: a tag that is null", "annotations", annotation(`,"tags":["a",null]`), "annotation", "wrong_type", "tags"},
		{"annotation: a list in the tags", "annotations", annotation(`,"tags":[["a"]]`), "annotation", "wrong_type", "tags"},
		{"annotation: tags cut off", "annotations", `{"tags":["a",`, "annotation", "unparsable", "tags"},
		{"annotation: a tag of 129 bytes", "annotations", annotation(`,"tags":["` + long[:129] + `"]`), "annotation", "label_too_long", "tags"},
		{"annotation: 33 tags", "annotations", annotation(tags), "annotation", "bad_value", "tags"},
		{"annotation: task", "annotations", annotation(`,"task":"t"`), "annotation", "unknown_field", "task"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			w := h.send(http.MethodPost, "/v1/"+c.path, c.body)
			a := answerOf(t, w)
			if w.Code != http.StatusBadRequest || a.Accepted != 0 || len(a.Rejected) != 1 || a.Rejected[0].Field != c.field || a.Rejected[0].Error == "" {
				t.Errorf("%d: %.500s, want field %q", w.Code, w.Body, c.field)
			}
			if n := h.counter(t, "rejected_total", c.feed, c.reason); n != 1 {
				t.Errorf("rejected_total{%s,%s} is %v: %.300s", c.feed, c.reason, n, w.Body)
			}
			if h.memory.facts.Len() != 0 {
				t.Errorf("kept %d facts", h.memory.facts.Len())
			}
		})
	}
}

func TestOutcomesAreRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	strange := `'\\\"🙂 <script>\n`
	body := outcome(`,"id":"i","detail":"`+strange+`"`) + "\n" + outcome(`,"task2":1`) + "\n" +
		strings.Replace(outcome(``), "11:00:00Z", "12:00:00.1239+01:00", 1) + "\n"
	w := h.send(http.MethodPost, "/v1/outcomes", body)
	a := answerOf(t, w)
	if w.Code != http.StatusOK || a.Accepted != 2 || len(a.Rejected) != 1 || a.Rejected[0].Index != 1 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	text := "'\\\"🙂 <script>\n"
	want := []usage.Outcome{
		{ID: usage.Hash("outcome", "i"), Time: noon.Add(-time.Hour), Arrived: noon, Task: "t", Outcome: usage.Delivered, Detail: text},
		// The content is stored as the identity: it may not change with the code.
		{
			ID: usage.Hash("outcome content", "1796036400123", "t", "delivered", ""), Time: noon.Add(-time.Hour + 123*time.Millisecond),
			Arrived: noon, Task: "t", Outcome: usage.Delivered,
		},
	}
	if diff := cmp.Diff(want, h.memory.facts.Outcomes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := h.counter(t, "facts_total", "outcome"); n != 2 {
		t.Errorf("facts_total is %v", n)
	}
}

func TestAnnotationsAreRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	w := h.send(http.MethodPost, "/v1/annotations", "["+annotation(`,"id":"i","project":"p","tags":["tier","release"]`)+","+
		annotation(`,"project":null,"tags":[]`)+","+annotation(`,"tags":["a","b"]`)+"]")
	if a := answerOf(t, w); w.Code != http.StatusOK || a.Accepted != 3 || len(a.Rejected) != 0 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	at := noon.Add(-time.Hour)
	want := []usage.Annotation{
		{ID: usage.Hash("annotation", "i"), Time: at, Arrived: noon, Project: "p", Text: "x", Tags: []string{"tier", "release"}},
		{ID: usage.Hash("annotation content", "1796036400000", "", "x"), Time: at, Arrived: noon, Text: "x"},
		{ID: usage.Hash("annotation content", "1796036400000", "", "x", "a", "b"), Time: at, Arrived: noon, Text: "x", Tags: []string{"a", "b"}},
	}
	if diff := cmp.Diff(want, h.memory.facts.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is too much or cannot be kept is refused whole, as of calls.
func TestOutcomeBounds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	many := strings.Repeat(outcome(``)+"\n", maxPosted+1)
	h.refusedWith(t, h.send(http.MethodPost, "/v1/outcomes", many), http.StatusRequestEntityTooLarge, "outcome", "too_large", "")
	h = newHarness(t, nil)
	h.refusedWith(t, h.send(http.MethodPost, "/v1/annotations", " \n"), http.StatusBadRequest, "annotation", "empty", "body")
}
