package simulate

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func hasLine(text []byte, line string) bool {
	return slices.Contains(strings.Split(string(text), "\n"), line)
}

// lifeHeader tells the receiver of a test what the wire does not: which life a
// push is of, and its number.
const lifeHeader = "X-Test-Life"

func decorated(f *Fleet) *Fleet {
	f.decorate = func(r *http.Request, q Request) {
		r.Header.Set(lifeHeader, fmt.Sprintf("%s/%d/%04d", q.Pod, q.Life, q.Push))
	}
	return f
}

// receiver keeps the last snapshot of each life.
type receiver struct {
	t *testing.T
	// fault, if not nil, decides what goes wrong with a request.
	fault func(*http.Request) fault

	mu       sync.Mutex
	requests []received
	kept     map[string]received // by life: of the highest number
}

type received struct {
	method, target, life string // life with the number of the push
	body                 []byte
	acknowledged         bool
}

// fault is what goes wrong with a request.
type fault int

const (
	none     fault = iota
	refused        // 400
	busy           // 503, not kept
	broken         // 500, but kept
	cut            // no answer, not kept
	cutAfter       // no answer, but kept
)

func newReceiver(t *testing.T) (*receiver, string) {
	r := &receiver{t: t, kept: map[string]received{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, s.URL + "/internal/metrics/push"
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil { // an interrupted fleet hangs up
		return
	}
	f := none
	if r.fault != nil {
		f = r.fault(req)
	}
	r.keep(received{req.Method, req.URL.String(), req.Header.Get(lifeHeader), body, f == none}, f == none || f == broken || f == cutAfter)
	switch f {
	case none:
		w.WriteHeader(http.StatusNoContent)
	case refused:
		w.WriteHeader(http.StatusBadRequest)
	case busy:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case broken:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		panic(http.ErrAbortHandler)
	}
}

func (r *receiver) keep(q received, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
	life, _, _ := cutLast(q.life)
	if stored && q.method == http.MethodPost && q.life >= r.kept[life].life {
		r.kept[life] = q
	}
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndex(s, "/")
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// sums are tokens by task, model and type, turns and tools, from the text.
func (r *receiver) sums() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]uint64{}
	for life, q := range r.kept {
		task, _, _ := cutLast(life)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(q.body))
		if err != nil {
			r.t.Fatalf("reading a push: %v", err)
		}
		for name, labels := range map[string][]string{
			"ccw_turn_tokens_total": {"project", "repo", "kind", "model", "type"},
			"ccw_turns_total":       {"result"},
			"ccw_tool_calls_total":  {"tool", "outcome"},
		} {
			for _, m := range families[name].GetMetric() {
				key := []string{task}
				for _, want := range labels {
					for _, l := range m.GetLabel() {
						if l.GetName() == want {
							key = append(key, l.GetValue())
						}
					}
				}
				out[strings.Join(key, "|")] += uint64(m.GetCounter().GetValue())
			}
		}
	}
	return out
}

// sumsOf is the same of a truth.
func sumsOf(t Truth) map[string]uint64 {
	out := map[string]uint64{}
	for _, r := range t.Rows {
		for class, n := range map[string]uint64{"input": r.Input, "output": r.Output, "cache_read": r.CacheRead, "cache_creation": r.CacheWrite} {
			out[strings.Join([]string{r.Task, r.Project, r.Repo, r.Kind, r.Model, class}, "|")] += n
		}
	}
	for _, a := range t.Activity {
		for result, n := range a.Turns {
			out[a.Task+"|"+result] += n
		}
		for _, c := range a.Tools {
			out[a.Task+"|"+c.Tool+"|"+c.Outcome] += c.Count
		}
	}
	return out
}

// sometimes goes wrong in one of the given ways, once in n requests.
func sometimes(n int, ways ...fault) func(*http.Request) fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 1))
	return func(*http.Request) fault {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(n) > 0 {
			return none
		}
		return ways[rng.IntN(len(ways))]
	}
}

// newSink is a receiver that accepts everything and keeps nothing.
func newSink(t testing.TB) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
