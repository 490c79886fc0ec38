package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/simulate"
)

// tokens are those of a row: input, output, cache read, cache write.
type tokens [4]uint64

// row is a row of the recording's truth.
type row struct{ task, model string }

// recordedSteps say what each request of the recording adds to, from its
// README and the bodies: after request n the row has these tokens. Requests
// that are not named change nothing.
var recordedSteps = map[int]struct {
	row
	tokens
}{
	2:  {row{"wrapper-task-a", "claude-opus-4-8"}, tokens{120, 2400, 51000, 18000}},
	3:  {row{"wrapper-task-a", "claude-opus-4-8"}, tokens{200, 4300, 120120, 20300}},
	4:  {row{"wrapper-task-a", "claude-sonnet-5"}, tokens{40, 700, 12000, 900}},
	7:  {row{"wrapper-task-b", "claude-sonnet-5"}, tokens{300, 150, 0, 21000}},
	10: {row{"wrapper-task-c", "claude-sonnet-5"}, tokens{10, 900, 30000, 5000}},
	12: {row{"wrapper-task-c", "claude-sonnet-5"}, tokens{22, 1700, 65000, 6200}},
	17: {row{"wrapper-task-c", "claude-sonnet-5"}, tokens{22 + 25, 1700 + 2100, 65000 + 80000, 6200 + 9000}},
	19: {row{"wrapper-task-c", "claude-sonnet-5"}, tokens{22 + 30, 1700 + 2400, 65000 + 162000, 6200 + 9400}},
}

const recordedRequests = 21

// prefix is the recording's first n requests, its pods and runs renamed by a
// suffix.
func prefix(t *testing.T, n int, suffix string) fs.FS {
	t.Helper()
	read := func(name string) []byte {
		text, err := fs.ReadFile(simulate.Recording(), name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var index []map[string]any
	if err := json.Unmarshal(read("index.json"), &index); err != nil {
		t.Fatal(err)
	}
	if len(index) != recordedRequests {
		t.Fatalf("the recording has %d requests, not %d", len(index), recordedRequests)
	}
	out := fstest.MapFS{}
	for _, r := range index[:n] {
		query := r["query"].(string)
		for _, pod := range []string{"a", "b", "c"} {
			query = strings.ReplaceAll(query, "wrapper-task-"+pod, "wrapper-task-"+pod+suffix)
		}
		r["query"] = query
		if body := r["body"].(string); body != "" {
			out[body] = &fstest.MapFile{Data: read(body)}
		}
	}
	text, err := json.Marshal(index[:n])
	if err != nil {
		t.Fatal(err)
	}
	out["index.json"] = &fstest.MapFile{Data: text}
	return out
}

// TestRecordedPushes: the recorded pushes of a real wrapper, sent once, twice,
// and cut off after each request, amount to what their README says had arrived.
func TestRecordedPushes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	want := map[row]tokens{}
	for n := 1; n <= recordedRequests; n++ {
		suffix := fmt.Sprintf("-until-%d", n)
		// A pause keeps the order of arrival, which has milliseconds.
		report, err := simulate.Replay(t.Context(), prefix(t, n, suffix), s.pushURL(), 2*time.Millisecond)
		if err != nil || report.Acknowledged != n {
			t.Fatalf("%v: %+v", err, report)
		}
		for i := 1; i <= n; i++ {
			if step, ok := recordedSteps[i]; ok {
				want[row{step.task + suffix, step.model}] = step.tokens
			}
		}
	}
	for range 2 { // as recorded, by the program itself, and then once more
		got := command(t, "simulate", "replay", "--push-url", s.pushURL(), "--interval", "2ms")
		if got.code != 0 || !strings.Contains(got.stdout, "21 acknowledged") {
			t.Fatalf("replay: %+v", got)
		}
		for _, step := range []int{3, 4, 7, 19} {
			want[recordedSteps[step].row] = recordedSteps[step].tokens
		}
		drained(t, s)
		if diff := cmp.Diff(want, recordedSpend(t, s)); diff != "" {
			t.Errorf("(-recorded +ledger):\n%s", diff)
		}
	}
	verify(t, s)
	s.stop(t)
}

func recordedSpend(t *testing.T, s *service) map[row]tokens {
	t.Helper()
	got := map[row]tokens{}
	for k, v := range spend(t, s, nil) {
		got[row{k.Task, k.Model}] = tokens{v.Input, v.Output, v.CacheRead, v.CacheWrite}
	}
	return got
}
