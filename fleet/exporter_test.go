package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// settles waits until scrapes come to what is wanted, which must not fall on the
// way.
func settles(t *testing.T, h http.Handler, want map[string]float64) {
	t.Helper()
	var last map[string]float64
	for range 3000 {
		got := scrape(t, h)
		for k, v := range last {
			if len(got) > 0 && got[k] < v {
				t.Fatalf("%s fell from %g to %g", k, v, got[k])
			}
		}
		if maps.Equal(got, want) {
			return
		}
		if len(got) > 0 {
			last = got
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the counters did not come to what was pushed:\n%s", cmp.Diff(want, last))
}

func TestTheFleetIsWhatWasPushed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	facts := &usage.Facts{}
	for i := range 40 {
		run, at := fmt.Sprintf("run-%d", i), now.Add(-time.Duration(i)*time.Hour)
		model := []string{"claude-haiku-4-5", "claude-sonnet-4-6", "unheard-of"}[i%3]
		kind := []string{"review", "implement"}[i%2]
		c := output(kind, model, uint64(1000+i))
		c.Input, c.CacheRead, c.CacheWrite = uint64(i), uint64(i*1_000_003), uint64(i*7)
		facts.Samples = append(facts.Samples, sample(t, run, 1, at, c))
		c.Output += 500
		facts.Samples = append(facts.Samples, sample(t, run, 2, at.Add(time.Minute), c, output(kind, "claude-opus-4-6", 9)))
	}
	// Dollars without tokens that have a price count as reported.
	s, err := usage.NewSample("dollars", "dollars", now, 1, usage.Counters{
		Costs: []usage.CostCounter{{Labels: usage.SampleLabels{Kind: "docs"}, Cost: 1_234_567_891}},
	})
	if err != nil {
		t.Fatal(err)
	}
	facts.Samples = append(facts.Samples, s)
	f.write(t, facts)
	// A push whose spend a call covers is in the fleet all the same.
	e := usage.Event{Feed: usage.FeedCall, Time: now, Arrived: now, Labels: usage.Labels{Run: "run-1", Model: "claude-sonnet-4-6"}, Tokens: usage.Tokens{Output: 1}}
	e.ID, e.Content = usage.Hash("e"), usage.Hash("c")
	f.write(t, &usage.Facts{Events: []usage.Event{e}})

	x, _ := f.exporter(t, quick())
	for series, v := range ready(t, x) {
		if v != 0 {
			t.Errorf("%s was first shown as %g", series, v)
		}
	}
	want := f.pushed(t)
	if want["cost //docs"] != 1.234567891 || len(want) < 10 {
		t.Fatalf("the test has too little: %v", want)
	}
	if diff := cmp.Diff(want, scrape(t, x)); diff != "" {
		t.Error(diff)
	}
	// What comes later, to a series that is known and to one that is not.
	f.write(t, &usage.Facts{Samples: []usage.Sample{sample(t, "late", 1, now, output("review", "claude-haiku-4-5", 70), output("new", "claude-haiku-4-5", 80))}})
	sawZero := false
	until(t, "the new series", func() bool {
		v, ok := scrape(t, x)["output demo//new claude-haiku-4-5"]
		sawZero = sawZero || ok && v == 0
		return v == 80
	})
	if !sawZero {
		t.Error("a new series was not shown as 0 first")
	}
	if diff := cmp.Diff(f.pushed(t), scrape(t, x)); diff != "" {
		t.Error(diff)
	}
	promtool(t, x)
}

func promtool(t *testing.T, h http.Handler) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("SKIPPED: promtool check metrics; promtool is not installed")
		return
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics/fleet", nil))
	cmd := exec.CommandContext(t.Context(), tool, "check", "metrics")
	cmd.Stdin = bytes.NewReader(rec.Body.Bytes())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// A link says late what a run is. What was counted stays where it was.
func TestALinkMovesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	push := func(n, tokens uint64) {
		f.write(t, &usage.Facts{Samples: []usage.Sample{sample(t, "run", n, now.Add(time.Duration(n)*time.Second),
			usage.TokenCounter{Labels: usage.SampleLabels{Model: "claude-haiku-4-5"}, Output: tokens})}})
	}
	push(1, 1_000_000)
	x, _ := f.exporter(t, quick())
	ready(t, x)
	unlinked := map[string]float64{"output // claude-haiku-4-5": 1_000_000, "cost //": 5}
	settles(t, x, unlinked)
	f.write(t, &usage.Facts{Links: []usage.Link{{Run: "run", Kind: "review", Project: "demo", Arrived: now}}})
	if got := f.pushed(t)["cost demo//review"]; got != 5 {
		t.Fatalf("the ledger did not take the link: %g", got)
	}
	push(2, 1_400_000)
	settles(t, x, map[string]float64{
		"output // claude-haiku-4-5": 1_000_000, "cost //": 5,
		"output demo//review claude-haiku-4-5": 400_000, "cost demo//review": 2,
	})
}

// derived writes a run's charges the way the writer does.
func (f *fixture) derived(t testing.TB, run string, first time.Time, charges, gone []usage.Charge) {
	t.Helper()
	ctx := t.Context()
	version, err := f.ledger.Clock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	d := clickhouse.Derived{
		Version: version, Charges: charges, GoneCharges: gone,
		Summaries: []usage.RunSummary{{Run: run, FirstSeen: first, LastSeen: time.Now()}},
	}
	if err := f.ledger.AppendDerived(ctx, &d); err != nil {
		t.Fatal(err)
	}
}

func charge(name, run string, at time.Time, n uint64) usage.Charge {
	return usage.Charge{
		ID: usage.Hash(name), FactRun: run, Feed: usage.FeedPush, Time: at,
		Labels: usage.Labels{Project: "demo", Kind: "review", Run: run, Model: "m"},
		Tokens: usage.Tokens{Output: n}, Cost: usage.Some(usage.Nano(n) * 1e9), Counted: true,
	}
}

const (
	tokens = "output demo//review m"
	cost   = "cost demo//review"
)

// A derivation may find that less was spent. The counters wait until that is
// exceeded, across restarts.
func TestCountersNeverFall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond)
	a, b := charge("a", "run", at, 60), charge("b", "run", at.Add(10*time.Minute), 40)
	f.derived(t, "run", at, []usage.Charge{a, b}, nil)
	x, stop := f.exporter(t, quick())
	settles(t, x, map[string]float64{tokens: 100, cost: 100})
	f.derived(t, "run", at, nil, []usage.Charge{b})
	marker := charge("m", "other", at, 1) // when it is counted, so is the fall
	f.derived(t, "other", at, []usage.Charge{marker}, nil)
	settles(t, x, map[string]float64{tokens: 101, cost: 101})
	stop()
	if got := scrape(t, x); len(got) != 0 {
		t.Errorf("a replica that was stopped exposes %v", got)
	}
	// While nobody counts: 60 becomes 90, and the other run goes on.
	f.derived(t, "run", at, []usage.Charge{charge("a", "run", at, 90)}, nil)
	f.derived(t, "other", at, []usage.Charge{charge("m", "other", at, 3)}, nil)
	x, _ = f.exporter(t, quick())
	if diff := cmp.Diff(map[string]float64{tokens: 101, cost: 101}, ready(t, x)); diff != "" {
		t.Errorf("the next holder does not begin where the last one was seen:\n%s", diff)
	}
	settles(t, x, map[string]float64{tokens: 103, cost: 103})
	f.derived(t, "run", at, []usage.Charge{charge("c", "run", at, 15)}, nil)
	settles(t, x, map[string]float64{tokens: 108, cost: 108})
}

// The first reading of a ledger that is in use finds years of spend, which was
// not spent in this second.
func TestThePastIsNoRise(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	f.derived(t, "old", now.AddDate(-1, 0, 0), []usage.Charge{charge("a", "old", now.AddDate(-1, 0, 0), 1000)}, nil)
	f.derived(t, "new", now, []usage.Charge{charge("b", "new", now, 5)}, nil)
	cfg := quick()
	cfg.Recent = time.Hour
	x, _ := f.exporter(t, cfg)
	if diff := cmp.Diff(map[string]float64{tokens: 1000, cost: 1000}, ready(t, x)); diff != "" {
		t.Error(diff)
	}
	settles(t, x, map[string]float64{tokens: 1005, cost: 1005})
}

// What is known of a run is forgotten some time after its last charge, and none
// of it counts again.
func TestAForgottenRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	at := now.Add(-30 * time.Hour)
	f.derived(t, "run", at, []usage.Charge{charge("a", "run", at, 100)}, nil)
	x, stop := f.exporter(t, quick())
	settles(t, x, map[string]float64{tokens: 100, cost: 100})
	stop()
	cfg := quick()
	cfg.Keep = time.Hour
	x, _ = f.exporter(t, cfg)
	until(t, "the run to be forgotten", func() bool {
		var n int
		if err := f.admin.QueryRow(t.Context(), `SELECT count(*) FROM fleet_runs`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	f.derived(t, "run", at, []usage.Charge{charge("b", "run", now, 7)}, nil) // its id is used again
	settles(t, x, map[string]float64{tokens: 107, cost: 107})
}

// epochs are the terms in which replicas answered, in the order of the answers.
type epochs struct {
	last   int64
	values map[string]float64
}

func (e *Exporter) present() *term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// see scrapes a replica and holds what it says against what was seen before.
func (s *epochs) see(t *testing.T, x *Exporter) bool {
	t.Helper()
	before := x.present()
	got := scrape(t, x)
	if len(got) == 0 {
		return false
	}
	term := x.present()
	if term != before {
		return false // it may be of either
	}
	if term == nil {
		t.Fatal("a replica without the lock exposes")
	}
	if term.epoch < s.last {
		t.Fatalf("epoch %d was exposed after epoch %d", term.epoch, s.last)
	}
	for k, v := range s.values {
		if got[k] < v {
			t.Fatalf("%s fell from %g to %g", k, v, got[k])
		}
	}
	s.last, s.values = term.epoch, got
	return true
}

func TestOneReplicaExposes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Now().UTC().Truncate(time.Millisecond)
	spent := uint64(0)
	spend := func() {
		spent++
		f.derived(t, "run", at, []usage.Charge{charge(fmt.Sprint(spent), "run", at, 1)}, nil)
	}
	spend()
	var replicas [2]*Exporter
	for i := range replicas {
		replicas[i], _ = f.exporter(t, quick())
	}
	var seen epochs
	leads := func() (n int) {
		for _, x := range replicas {
			if x.leads() {
				n++
			}
		}
		return n
	}
	for range 4 {
		from := seen.last
		until(t, "a replica to expose", func() bool {
			exposing := 0
			for _, x := range replicas {
				if seen.see(t, x) {
					exposing++
				}
			}
			return exposing == 1 && seen.last > from
		})
		for range 5 {
			spend()
			for _, x := range replicas {
				seen.see(t, x)
			}
		}
		if n := leads(); n > 1 {
			t.Errorf("%d replicas say that they lead", n)
		}
		// Postgres ends the session of the holder.
		tag, err := f.admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		if err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%d sessions had the lock, error %v", tag.RowsAffected(), err)
		}
	}
	until(t, "every token to be counted", func() bool {
		for _, x := range replicas {
			seen.see(t, x)
		}
		return seen.values[tokens] == float64(spent)
	})
}

// faulty fails when it is told to.
type faulty struct {
	Ledger
	State
	ledgerAway, stateAway atomic.Bool
}

var errAway = errors.New("away")

func (f *faulty) Clock(ctx context.Context) (uint64, error) {
	if f.ledgerAway.Load() {
		return 0, errAway
	}
	return f.Ledger.Clock(ctx)
}

func (f *faulty) ShowFleet(ctx context.Context, epoch int64, rise bool) ([]store.FleetSeries, error) {
	if f.stateAway.Load() {
		return nil, errAway
	}
	return f.State.ShowFleet(ctx, epoch, rise)
}

func TestAStoreIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Now().UTC().Truncate(time.Millisecond)
	f.derived(t, "run", at, []usage.Charge{charge("a", "run", at, 10)}, nil)
	stores := &faulty{Ledger: f.ledger, State: f.state}
	cfg := quick()
	cfg.Stale = 3 * time.Second
	x := newExporter(cfg, stores, stores)
	start(t, x.Run)
	settles(t, x, map[string]float64{tokens: 10, cost: 10})

	stores.stateAway.Store(true)
	if diff := cmp.Diff(map[string]float64{tokens: 10, cost: 10}, scrape(t, x)); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(x.metrics.scrapes); n < 1 {
		t.Error("a scrape with old values is not counted")
	}
	stores.stateAway.Store(false)

	stores.ledgerAway.Store(true)
	until(t, "a gap", func() bool { return len(scrape(t, x)) == 0 })
	if n := testutil.ToFloat64(x.metrics.failures); n < 1 {
		t.Error("failures are not counted")
	}
	if x.lag() < cfg.Stale {
		t.Errorf("the lag is %s", x.lag())
	}
	f.derived(t, "run", at, []usage.Charge{charge("b", "run", at, 5)}, nil)
	stores.ledgerAway.Store(false)
	settles(t, x, map[string]float64{tokens: 15, cost: 15})
}

// A replica that cannot reach Postgres knows by its clock alone that another may
// expose by now; that other waits until the first must know.
func TestATermExposes(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	for _, test := range []struct {
		name                     string
		since, pinged, refreshed time.Duration // ago; negative: never
		want                     bool
	}{
		{"in the middle", time.Minute, time.Second, time.Second, true},
		{"while another may still expose", cfg.Lease - time.Second, time.Second, time.Second, false},
		{"after the lease", time.Minute, cfg.Lease + time.Second, time.Second, false},
		{"while the ledger is away", time.Minute, time.Second, cfg.Stale - time.Second, true},
		{"while the ledger is away for long", time.Minute, time.Second, cfg.Stale + time.Second, false},
		{"before the ledger was read", time.Minute, time.Second, -1, false},
	} {
		x := newExporter(cfg, nil, nil)
		x.term = &term{since: time.Now().Add(-test.since), pinged: time.Now().Add(-test.pinged)}
		if test.refreshed >= 0 {
			x.term.refreshed = time.Now().Add(-test.refreshed)
		}
		if got := x.exposing() != nil; got != test.want {
			t.Errorf("%s: %v; want %v", test.name, got, test.want)
		}
	}
}

// Where several servers scrape, all see a new counter's 0.
func TestScrapesSeeTheSameForAWhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Now().UTC().Truncate(time.Millisecond)
	f.derived(t, "run", at, []usage.Charge{charge("a", "run", at, 10)}, nil)
	cfg := quick()
	cfg.Hold = time.Hour
	x, _ := f.exporter(t, cfg)
	zero := map[string]float64{tokens: 0, cost: 0}
	for _, got := range []map[string]float64{ready(t, x), scrape(t, x)} {
		if diff := cmp.Diff(zero, got); diff != "" {
			t.Error(diff)
		}
	}
	x.scrape.Lock()
	x.present().risen = time.Now().Add(-cfg.Hold)
	x.scrape.Unlock()
	for range 2 {
		if diff := cmp.Diff(map[string]float64{tokens: 10, cost: 10}, scrape(t, x)); diff != "" {
			t.Error(diff)
		}
	}
}

// A HEAD is no scrape: it must not take the zero away.
func TestHeadShowsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Now().UTC().Truncate(time.Millisecond)
	f.derived(t, "run", at, []usage.Charge{charge("a", "run", at, 10)}, nil)
	x, _ := f.exporter(t, quick())
	until(t, "the term to begin", func() bool { return x.exposing() != nil })
	for range 2 {
		x.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodHead, "/metrics/fleet", nil))
	}
	if diff := cmp.Diff(map[string]float64{tokens: 0, cost: 0}, scrape(t, x)); diff != "" {
		t.Error(diff)
	}
}
