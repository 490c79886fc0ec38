package api

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/alerts/evaluate"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

var emptyMetrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
})

// standings are the tasks that there are.
type standings struct {
	all []evaluate.Standing
	err error
}

func (s *standings) Standing(_ context.Context, task string) (evaluate.Standing, error) {
	for _, found := range s.all {
		if found.Name == task {
			return found, s.err
		}
	}
	if s.err != nil {
		return evaluate.Standing{}, s.err
	}
	return evaluate.Standing{}, &store.MissingError{What: "task"}
}

func (s *standings) All() (iter.Seq[evaluate.Standing], time.Time, error) {
	return slices.Values(s.all), noon, s.err
}

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// standing is a task that cost so many dollars, of 10.
func standing(t *testing.T, name string, dollars float64, change ...func(*evaluate.Standing)) evaluate.Standing {
	t.Helper()
	cfg, err := ceiling.Load("test.yaml", strings.NewReader("default: {task: {usd: 10, tokens: none, output_tokens: none, runs: none}, hour: {usd: none, tokens: none, output_tokens: none, runs: none}, session: {subagents: 5}}"))
	if err != nil {
		t.Fatal(err)
	}
	s := evaluate.Standing{
		Task: tasks.Task{
			Name: name, Project: "p", Repo: "r", Kind: "implement", Issue: "i", Model: "m",
			Total: tasks.Amounts{Cost: usage.Some(usage.Nano(dollars * 1e9)), Tokens: 100, OutputTokens: 10}, Runs: 2,
			FirstSpend: noon.Add(-time.Hour), LastSpend: noon,
		},
		At: noon, Ceiling: cfg.For("", "", ""), State: evaluate.OK, PerHour: 1e9,
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func (s *service) tasks(query string) wire.Tasks {
	s.t.Helper()
	return into[wire.Tasks](s.do("GET", "/v1/tasks"+query, nil).want(200))
}

func TestATask(t *testing.T) {
	t.Parallel()
	known := &standings{all: []evaluate.Standing{standing(t, "org/repo#12", 8.5, func(s *evaluate.Standing) {
		s.State, s.ReachedAt = evaluate.Warn, noon.Add(90*time.Minute)
		s.Turns = tasks.Turns{Count: 3, ByResult: []tasks.TurnResult{{Result: "error", Count: 1}, {Result: "success", Count: 2}}, Last: noon, LastResult: "success"}
	}), standing(t, "uncounted", 1)}}
	s := newService(t, func(c *Config) { c.Tasks = known })
	cost, limit, reached := "8.5", "10", noon.Add(90*time.Minute)
	last := noon
	want := wire.Task{
		Task: "org/repo#12", Project: "p", Repo: "r", Kind: "implement", Issue: "i", Model: "m", State: "warn",
		TaskAmounts:    wire.TaskAmounts{CostUSD: &cost, Tokens: 100, OutputTokens: 10, Runs: 2},
		CostPerHourUSD: "1", FirstSpendAt: noon.Add(-time.Hour), LastSpendAt: noon, LimitReachedAt: &reached,
		Ceiling: wire.TaskCeiling{USD: &limit, Limits: []wire.TaskLimit{
			{Limit: "task.usd", Value: "8.5", Of: "10", Percent: 85, Source: "test.yaml:1"},
			{Limit: "session.subagents", Value: "0", Of: "5", Source: "test.yaml:1"},
		}},
		Turns: &wire.TaskTurns{Count: 3, ByResult: []wire.TurnResult{{Result: "error", Count: 1}, {Result: "success", Count: 2}}, LastAt: &last, LastResult: "success"},
		AsOf:  noon,
	}
	// A proxy may have decoded the slash.
	for _, path := range []string{"org%2Frepo%2312", "org/repo%2312"} {
		got := into[wire.Task](s.do("GET", "/v1/tasks/"+path, nil).want(200))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", path, diff)
		}
	}
	if diff := cmp.Diff(want, s.tasks("").Tasks[0]); diff != "" {
		t.Errorf("in the list:\n%s", diff)
	}
	if got := into[wire.Task](s.do("GET", "/v1/tasks/uncounted", nil).want(200)); got.Turns != nil {
		t.Errorf("turns that no feed counts: %+v", got.Turns)
	}
	s.do("GET", "/v1/tasks/unknown", nil).want(404)
	known.err = store.ErrUnavailable
	for _, path := range []string{"/v1/tasks/org%2Frepo%2312", "/v1/tasks"} {
		if r := s.do("GET", path, nil).want(503); r.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
}

func TestListOfTasks(t *testing.T) {
	t.Parallel()
	var all []evaluate.Standing
	for i := range 23 {
		all = append(all, standing(t, fmt.Sprintf("t%02d", i), float64(i*7%10), func(s *evaluate.Standing) {
			s.Total.Tokens = uint64(100 - i)
			s.LastSpend = noon.Add(time.Duration(i) * time.Minute)
			s.PerHour = usage.Nano(i % 3)
			s.Kind = []string{"implement", "review"}[i%2]
			s.State = []evaluate.State{evaluate.OK, evaluate.Warn, evaluate.Exceeded}[i%3]
		}))
	}
	s := newService(t, func(c *Config) { c.Tasks = &standings{all: all} })
	key := map[string]func(wire.Task) string{
		"cost":   func(t wire.Task) string { return *t.CostUSD },
		"tokens": func(t wire.Task) string { return fmt.Sprintf("%05d", t.Tokens) },
		"recent": func(t wire.Task) string { return t.LastSpendAt.Format(time.RFC3339) },
		"rate":   func(t wire.Task) string { return t.CostPerHourUSD },
		"share":  func(t wire.Task) string { return fmt.Sprintf("%05d", t.Ceiling.Limits[0].Percent) },
	}
	for order, of := range key {
		for _, limit := range []int{1, 5, 22, 23, 24, 500} {
			var got []wire.Task
			after := ""
			for range 30 {
				page := s.tasks(fmt.Sprintf("?sort=%s&limit=%d&after=%s", order, limit, url.QueryEscape(after)))
				got = append(got, page.Tasks...)
				if page.Count != len(page.Tasks) || page.Count > limit || !page.AsOf.Equal(noon) {
					t.Errorf("a page of %d tasks, count %d, limit %d", len(page.Tasks), page.Count, limit)
				}
				if page.Next == nil {
					break
				}
				after = *page.Next
			}
			if len(got) != len(all) || !slices.IsSortedFunc(got, func(a, b wire.Task) int {
				if c := strings.Compare(of(b), of(a)); c != 0 {
					return c
				}
				return strings.Compare(a.Task, b.Task)
			}) {
				t.Errorf("%s by %d: %d tasks, in no order", order, limit, len(got))
			}
		}
	}
	for query, want := range map[string]int{"?state=exceeded": 7, "?state=warn&kind=review": 4, "?kind=none": 0, "?project=p&repo=r&limit=500": 23, "?state=&sort=": 23} {
		if got := s.tasks(query); got.Count != want {
			t.Errorf("%s: %d tasks, want %d", query, got.Count, want)
		}
	}
	next := *s.tasks("?limit=1").Next
	for query, field := range map[string]string{
		"?state=high": "state", "?sort=name": "sort", "?limit=0": "limit", "?after=x": "after", "?sort=tokens&after=" + next: "after",
		"?status=warn": "status", "?after=AAAA": "after",
	} {
		s.do("GET", "/v1/tasks"+query, nil).fails(400, field)
	}
}

func TestTheCeilingOfATask(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const path = "/v1/tasks/org%2Frepo%2312/ceiling"
	s.do("GET", path, nil).want(404)
	text := func(v string) *string { return &v }
	number := func(v int64) *int64 { return &v }
	var want []wire.CeilingOverride
	for body, o := range map[string]wire.CeilingOverride{
		`{"usd":12.5}`: {USD: text("12.5")},
		`{"usd":"0.000000001","tokens":7,"output_tokens":null}`: {USD: text("0.000000001"), Tokens: number(7)},
		`{"output_tokens":1000000000000000}`:                    {OutputTokens: number(1e15)},
		`{"exempt":true}`:                                       {Exempt: true},
		`{}`:                                                    {},
	} {
		got := into[wire.CeilingOverride](s.do("PUT", path, body, "X-Request-Id", "run-1").want(200))
		o.Task, o.SetBy, o.RequestID = "org/repo#12", got.SetBy, "run-1"
		if diff := cmp.Diff(o, got, cmpopts.IgnoreFields(o, "SetAt")); diff != "" || got.SetBy == "" || time.Since(got.SetAt) > time.Minute {
			t.Errorf("%s: set at %v\n%s", body, got.SetAt, diff)
		}
		want = append([]wire.CeilingOverride{got}, want...)
	}
	all := into[wire.CeilingOverrides](s.do("GET", path, nil).want(200))
	if diff := cmp.Diff(wire.CeilingOverrides{CeilingOverride: want[0], Changes: want}, all); diff != "" {
		t.Error(diff)
	}
	for body, field := range map[string]string{
		`{"usd":0}`: "usd", `{"usd":-1}`: "usd", `{"usd":"much"}`: "usd", `{"usd":"1e400"}`: "usd", `{"usd":[]}`: "usd", `{"usd":""}`: "usd",
		`{"tokens":0}`: "tokens", `{"tokens":-5}`: "tokens", `{"tokens":1.5}`: "tokens", `{"tokens":"7"}`: "tokens",
		`{"output_tokens":1000000000000001}`: "output_tokens", `{"exempt":"yes"}`: "exempt", `[]`: "body", ``: "body",
	} {
		s.do("PUT", path, body).fails(400, field)
	}
}

func TestTheEndOfATask(t *testing.T) {
	t.Parallel()
	s := newService(t)
	end := into[wire.TaskEnd](s.do("POST", "/v1/tasks/t/end", `{}`).want(200))
	if end.Task != "t" || end.EndedBy == "" || time.Since(end.EndedAt) > time.Minute {
		t.Errorf("%+v", end)
	}
	if !strings.Contains(s.log.String(), `"action":"task_end"`) {
		t.Error("it is not in the log")
	}
	s.do("POST", "/v1/tasks/%20/end", `{}`).want(400)
	s.do("POST", "/v1/tasks/"+strings.Repeat("x", 1025)+"/end", `{}`).want(400)
}
