package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/simulate"
)

// TestPostedCallsCountOnce: what is posted to several services, again after
// they were stopped, or under one id with other content, counts once.
func TestPostedCallsCountOnce(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	a, b := e.serve(t, e.clickHouse), e.serve(t, e.clickHouse)
	book, maker, want := prices(t), newCallMaker("once", 31), newTruth()
	for range 5 {
		calls := maker.batch(200)
		calls[0].ID, calls[1].ID = "", "" // these are identified by all that they say
		for i := range calls {
			want.add(calls[i].key(), calls[i].sum(t, book))
		}
		post(t, calls, a)
		post(t, calls, b)
		post(t, append(calls[100:], calls[:100]...), b, a)
	}
	want.check(t, a, b)

	// The same id with another time, task, model or amount within the window:
	// the first wins.
	changes := []func(*call){
		func(c *call) { c.Time = c.Time.Add(-time.Hour) }, func(c *call) { c.Task = "elsewhere" },
		func(c *call) { c.Model = "claude-opus-4-1" }, func(c *call) { c.Output += 1000 },
		func(c *call) { c.Run = "another" }, func(c *call) { c.Time = c.Time.Add(time.Second) },
	}
	firsts, seconds := maker.batch(60), []call{}
	for i := range firsts {
		want.add(firsts[i].key(), firsts[i].sum(t, book))
		second := firsts[i]
		changes[i%len(changes)](&second)
		seconds = append(seconds, second)
	}
	post(t, firsts, a)
	drained(t, a)
	post(t, seconds, b)
	want.check(t, a, b)
	if n := conflicts(t, a, b); n < float64(len(seconds)) {
		t.Errorf("%v conflicts are counted of %d", n, len(seconds))
	}
	b.stop(t)
	b.start(t)
	post(t, seconds, b, a)
	want.check(t, b)
	a.stop(t)
	b.stop(t)
	stop(t, e.process)
}

func conflicts(t *testing.T, services ...*service) (n float64) {
	t.Helper()
	for _, s := range services {
		n += s.metric(t, "tatara_ledger_writer_conflicts_total")
	}
	return n
}

// TestConflictAtOnce: two versions of a call under one id go to two services
// at the same moment. Exactly one counts, and both services say which
// (openmeter#5118, opentelemetry-proto#218).
func TestConflictAtOnce(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	services := []*service{e.serve(t, e.clickHouse), e.serve(t, e.clickHouse)}
	const times = 60
	now := time.Now().UTC().Truncate(time.Millisecond)
	version := func(i, which int) call {
		c := call{
			ID: fmt.Sprintf("twice-%d", i), Time: now.Add(-time.Hour), Task: fmt.Sprintf("version-%d", which),
			Run: fmt.Sprintf("run-%d", i), Kind: fmt.Sprintf("pair-%d", i), Model: "claude-opus-4-8", Input: 1000,
		}
		if i%2 == 0 { // another bucket, and another month
			c.Time = c.Time.Add(-time.Duration(which) * 40 * 24 * time.Hour)
		}
		return c
	}
	for i := range times {
		var both errgroup.Group
		for which, s := range services {
			body := ndjson(t, []call{version(i, which)})
			both.Go(func() error {
				got := send(t.Context(), http.MethodPost, "http://"+s.api+"/v1/calls", body)
				if got.status != http.StatusOK {
					return fmt.Errorf("%+v", got)
				}
				return nil
			})
		}
		if err := both.Wait(); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 { // the pairs of a round share batches, or do not
			drained(t, services...)
		}
	}
	drained(t, services...)
	everything := url.Values{"from": {now.Add(-90 * 24 * time.Hour).Format(time.RFC3339)}, "by": {"kind,task"}}
	answers := make([]map[string]uint64, len(services))
	for n, s := range services {
		answers[n] = map[string]uint64{}
		for _, r := range query(t, s, everything).Rows {
			answers[n][r.Keys["kind"]+" "+r.Keys["task"]] = *r.Requests
		}
		for i := range times {
			one, other := answers[n][fmt.Sprintf("pair-%d version-0", i)], answers[n][fmt.Sprintf("pair-%d version-1", i)]
			if one+other != 1 {
				t.Errorf("pair %d: version 0 counts %d times and version 1 %d times", i, one, other)
			}
		}
	}
	if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
		t.Errorf("the services disagree:\n%s", diff)
	}
	if n := conflicts(t, services...); n < times {
		t.Errorf("%v conflicts are counted of %d", n, times)
	}
	verify(t, services[0])
	for _, s := range services {
		s.stop(t)
	}
}

// tasksOf are the output tokens by task.
func tasksOf(t *testing.T, s *service) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for _, r := range query(t, s, url.Values{"by": {"task"}}).Rows {
		out[r.Keys["task"]] = r.OutputTokens
	}
	return out
}

// TestLateLinks: a link that comes after the spend labels it, the calls that
// name only a session too; another link of the run moves it on and lets go of
// the session.
func TestLateLinks(t *testing.T) {
	t.Parallel()
	s := serve(t)
	expect := func(step string, want map[string]uint64) {
		t.Helper()
		drained(t, s)
		if diff := cmp.Diff(want, tasksOf(t, s)); diff != "" {
			t.Errorf("%s (-want +ledger):\n%s", step, diff)
		}
	}
	report, err := simulate.Replay(t.Context(), prefix(t, 5, ""), s.pushURL(), 2*time.Millisecond) // pod a: 4300 + 700
	if err != nil || report.Acknowledged != 5 {
		t.Fatalf("%v: %+v", err, report)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	base := call{Time: now.Add(-26 * time.Hour), Model: "claude-haiku-4-5"}
	one, two, three := base, base, base
	one.ID, one.Session, one.Output = "1", "session-1", 1
	two.ID, two.Run, two.Output = "2", "wrapper-task-a-0", 10
	three.ID, three.Session, three.Task, three.Output = "3", "session-1", "own", 100
	post(t, []call{one, two, three}, s)
	expect("without a link", map[string]uint64{"wrapper-task-a": 5000, "": 11, "own": 100})

	link(t, s, "wrapper-task-a-0", map[string]string{"task": "issue-7", "session": "session-1", "issue": "o/r#7"})
	expect("linked late", map[string]uint64{"issue-7": 5011, "own": 100})
	verify(t, s)

	link(t, s, "wrapper-task-a-0", map[string]string{"task": "issue-8", "session": "session-2"})
	expect("linked elsewhere", map[string]uint64{"issue-8": 5010, "": 1, "own": 100})
	link(t, s, "another-run", map[string]string{"task": "issue-9", "session": "session-1"})
	expect("the session linked to another run", map[string]uint64{"issue-8": 5010, "issue-9": 1, "own": 100})
	verify(t, s)

	link(t, s, "another-run", map[string]string{"task": "issue-9"})
	link(t, s, "wrapper-task-a-0", map[string]string{"task": "issue-7", "session": "session-1"})
	expect("linked back", map[string]uint64{"issue-7": 5011, "own": 100})
	verify(t, s)
	s.stop(t)
}

// TestCallsBeatPushes: calls of a run and model replace what the run's pushes
// say of it and are never added; the other models of the pushes count.
func TestCallsBeatPushes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	expect := func(step string, want map[string]uint64) {
		t.Helper()
		drained(t, s)
		got := map[string]uint64{}
		for _, r := range query(t, s, url.Values{"by": {"model,feed"}}).Rows {
			got[r.Keys["model"]+" "+r.Keys["feed"]] = r.OutputTokens
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +ledger):\n%s", step, diff)
		}
	}
	replay := func(ctx context.Context, n int) {
		t.Helper()
		if report, err := simulate.Replay(ctx, prefix(t, n, ""), s.pushURL(), 2*time.Millisecond); err != nil || report.Acknowledged != n {
			t.Fatalf("%v: %+v", err, report)
		}
	}
	replay(t.Context(), 3)
	expect("pushes alone", map[string]uint64{"claude-opus-4-8 push": 4300})
	now := time.Now().UTC().Truncate(time.Millisecond)
	c := call{ID: "1", Time: now, Run: "wrapper-task-a-0", Model: "claude-opus-4-8", Output: 7}
	post(t, []call{c}, s)
	expect("a call of the run", map[string]uint64{"claude-opus-4-8 call": 7})
	replay(t.Context(), 5)
	expect("more pushes, of another model too", map[string]uint64{"claude-opus-4-8 call": 7, "claude-sonnet-5 push": 700})
	verify(t, s)

	// A call that names only a session beats the pushes once a link ties it.
	d := call{ID: "2", Time: now, Session: "session-1", Model: "claude-sonnet-5", Output: 8}
	post(t, []call{d}, s)
	expect("a call of a session", map[string]uint64{
		"claude-opus-4-8 call": 7, "claude-sonnet-5 push": 700, "claude-sonnet-5 call": 8,
	})
	link(t, s, "wrapper-task-a-0", map[string]string{"session": "session-1"})
	expect("linked", map[string]uint64{"claude-opus-4-8 call": 7, "claude-sonnet-5 call": 8})
	link(t, s, "wrapper-task-a-0", map[string]string{"session": "session-2"})
	expect("linked elsewhere", map[string]uint64{
		"claude-opus-4-8 call": 7, "claude-sonnet-5 push": 700, "claude-sonnet-5 call": 8,
	})
	verify(t, s)
	s.stop(t)
}
