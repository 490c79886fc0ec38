package tasks

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, clickhouse.Published())
	os.Exit(engines.Run(m))
}

// noon is the middle of a bucket, and of everything that tests write.
var noon = time.Date(2026, 11, 29, 12, 2, 0, 0, time.UTC)

// ledger is a store whose clock the test holds. Marks have the server's.
type ledger struct {
	*clickhouse.Store
	sql *sql.DB

	mu   sync.Mutex
	now  time.Time
	real time.Time // when marks were last read
	// between runs after marks were read, once.
	between func()
}

func newLedger(t testing.TB) *ledger {
	t.Helper()
	return openLedger(t, engines.Database(t), engines.ClickHouse(t).Addr)
}

func openLedger(t testing.TB, database, address string) *ledger {
	t.Helper()
	a := engines.ClickHouse(t)
	s, err := clickhouse.Open(clickhouse.Config{Addresses: []string{address}, Database: database, User: a.User, Password: a.Password.Reveal()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := driver.OpenDB(&driver.Options{
		Addr: []string{address}, Protocol: driver.HTTP, Auth: driver.Auth{Database: database, Username: a.User, Password: a.Password.Reveal()},
	})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &ledger{Store: s, sql: db, now: noon}
}

func (l *ledger) TaskMarks(ctx context.Context, since time.Time) (clickhouse.TaskMarks, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !since.IsZero() {
		since = l.real.Add(-overlap)
	}
	m, err := l.Store.TaskMarks(ctx, since)
	if err == nil {
		l.real, m.Now = m.Now, l.now
	}
	if f := l.between; f != nil {
		l.between = nil
		f()
	}
	return m, err
}

// pass moves the clock.
func (l *ledger) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

// write writes charges, and withdraws others, the way the writer does.
func (l *ledger) write(t testing.TB, charges, gone []usage.Charge) {
	t.Helper()
	l.complete(t, l.open(t, charges, gone))
}

// turn writes turns, and withdraws others, likewise.
func (l *ledger) turn(t testing.TB, turns, gone []usage.Activity) {
	t.Helper()
	l.complete(t, l.openAll(t, clickhouse.Derived{Activity: turns, GoneActivity: gone}))
}

type attempt struct {
	mark    uint64
	buckets []time.Time
}

// open writes charges and leaves their marks open.
func (l *ledger) open(t testing.TB, charges, gone []usage.Charge) attempt {
	t.Helper()
	return l.openAll(t, clickhouse.Derived{Charges: charges, GoneCharges: gone})
}

func (l *ledger) openAll(t testing.TB, d clickhouse.Derived) attempt {
	t.Helper()
	var err error
	if d.Version, err = l.Clock(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := attempt{mark: rand.Uint64()}
	for _, rows := range [][]usage.Charge{d.Charges, d.GoneCharges} {
		for i := range rows {
			a.buckets = append(a.buckets, rows[i].Bucket())
		}
	}
	for _, rows := range [][]usage.Activity{d.Activity, d.GoneActivity} {
		for i := range rows {
			a.buckets = append(a.buckets, rows[i].Bucket())
		}
	}
	if err := l.OpenMarks(t.Context(), a.mark, a.buckets); err != nil {
		t.Fatal(err)
	}
	if err := l.AppendDerived(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	return a
}

// derived are charges of no mark.
func derived(t testing.TB, l *ledger, charges ...usage.Charge) *clickhouse.Derived {
	t.Helper()
	version, err := l.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &clickhouse.Derived{Version: version, Charges: charges}
}

func (l *ledger) complete(t testing.TB, a attempt) {
	t.Helper()
	if err := l.CompleteMarks(t.Context(), a.mark, a.buckets, 0, a.mark+1); err != nil {
		t.Fatal(err)
	}
}

// close closes whatever is complete.
func (l *ledger) close(t testing.TB) {
	t.Helper()
	for {
		b, err := l.CloseBuckets(t.Context(), clickhouse.Quiet{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		h, err := l.CloseHours(t.Context(), clickhouse.Quiet{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		if b == 0 && h == 0 {
			return
		}
	}
}

// canonical cuts off the date of a model's name.
func canonical(model string) string {
	name, _, _ := strings.Cut(model, "@")
	return name
}

type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines is how many lines were logged at a level.
func (l *logs) lines(level string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), "level="+level)
}

func newWatcher(t testing.TB, l Ledger, change func(*Config)) (*Watcher, *logs) {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	out := &logs{}
	w := NewWatcher(cfg, l, canonical, slog.New(slog.NewTextHandler(out, nil)), prometheus.NewRegistry())
	w.confirm = 0
	return w, out
}

func refresh(t testing.TB, w *Watcher) *Snapshot {
	t.Helper()
	if err := w.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.Snapshot()
}

// charge is a call of a task: 10 tokens, 4 of them output.
func charge(name, task string, t time.Time, cost usage.Nano, l usage.Labels) usage.Charge {
	l.Task = task
	return usage.Charge{
		ID: usage.Hash(name), FactRun: "fact", Feed: usage.FeedCall, Time: t, Labels: l, Requests: 1,
		Tokens:   usage.Tokens{Input: 1, Output: 4, CacheRead: 2, CacheWrite: 3},
		Computed: usage.Some(cost), Cost: usage.Some(cost), Counted: true,
	}
}

// turns are n turns of a task that ended alike.
func turns(name, task, result string, t time.Time, n uint64) usage.Activity {
	return usage.Activity{
		ID: usage.Hash(name), FactRun: "fact", Feed: usage.FeedPush, Time: t, Labels: usage.Labels{Task: task},
		Name: usage.ActivityTurns, Result: result, Count: n,
	}
}

// expectedTurns are the turns of tasks, one by one.
func (l *ledger) expectedTurns(t testing.TB) map[string]Turns {
	t.Helper()
	all, err := l.PushedActivity(t.Context(), []string{"fact"}, noon.AddDate(0, 0, -100))
	if err != nil {
		t.Fatal(err)
	}
	counts, out := map[string]map[string]uint64{}, map[string]Turns{}
	for _, a := range all {
		if a.Name != usage.ActivityTurns {
			continue
		}
		x := out[a.Labels.Task]
		x.Count += a.Count
		if a.Time.After(x.Last) || a.Time.Equal(x.Last) && a.Result > x.LastResult {
			x.Last, x.LastResult = a.Time, a.Result
		}
		out[a.Labels.Task] = x
		if counts[a.Labels.Task] == nil {
			counts[a.Labels.Task] = map[string]uint64{}
		}
		counts[a.Labels.Task][a.Result] += a.Count
	}
	for task, x := range out {
		for _, result := range slices.Sorted(maps.Keys(counts[task])) {
			x.ByResult = append(x.ByResult, TurnResult{result, counts[task][result]})
		}
		out[task] = x
	}
	return out
}

// turnsAgree fails the test unless the snapshot's turns are those of the view
// turns.
func (l *ledger) turnsAgree(t testing.TB, step string, s *Snapshot) {
	t.Helper()
	rows, err := l.sql.QueryContext(t.Context(), "SELECT task, toString(result), sum(turns) AS n FROM turns WHERE task != '' GROUP BY task, result HAVING n > 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	want, got := map[string]uint64{}, map[string]uint64{}
	for rows.Next() {
		var (
			task, result string
			n            uint64
		)
		if err := rows.Scan(&task, &result, &n); err != nil {
			t.Fatal(err)
		}
		if _, in := s.Task(task); in {
			want[task+"|"+result] = n
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for x := range s.All() {
		for _, r := range x.Turns.ByResult {
			got[x.Name+"|"+r.Result] = r.Count
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: the view turns (-) and the snapshot (+) differ:\n%s", step, diff)
	}
}

// expected is what tasks come to at a moment, from the charges and turns one by
// one.
func (l *ledger) expected(t testing.TB, at time.Time) map[string]Task {
	t.Helper()
	charges, err := l.ChargesBetween(t.Context(), noon.AddDate(0, 0, -100), noon.AddDate(0, 0, 100))
	if err != nil {
		t.Fatal(err)
	}
	byTask := map[string][]usage.Charge{}
	for _, c := range charges {
		if c.Counted && c.Labels.Task != "" {
			byTask[c.Labels.Task] = append(byTask[c.Labels.Task], c)
		}
	}
	out, turns := map[string]Task{}, l.expectedTurns(t)
	for name, all := range byTask {
		x := expectedTask(name, all, at)
		x.Turns = turns[name]
		out[name] = x
	}
	return out
}

func expectedTask(name string, all []usage.Charge, at time.Time) Task {
	slices.SortFunc(all, func(a, b usage.Charge) int {
		x, y := a.Labels, b.Labels
		return cmp.Or(a.Bucket().Compare(b.Bucket()), cmp.Compare(x.Project, y.Project), cmp.Compare(x.Repo, y.Repo),
			cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Issue, y.Issue))
	})
	last := all[len(all)-1]
	out := Task{
		Name: name, Project: last.Labels.Project, Repo: last.Labels.Repo, Kind: last.Labels.Kind, Issue: last.Labels.Issue,
		FirstSpend: all[0].Bucket(), LastSpend: last.Bucket().Add(5 * time.Minute),
	}
	runs, hourRuns, agents := map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}
	models := map[string]Model{}
	for _, c := range all {
		sums := []*Amounts{&out.Total}
		inHour := !c.Bucket().Before(usage.Bucket(at).Add(-time.Hour)) && !c.Bucket().After(at)
		if inHour {
			sums = append(sums, &out.Hour)
		}
		if c.Labels.Run != "" {
			runs[c.Labels.Run] = true
			if inHour {
				hourRuns[c.Labels.Run] = true
			}
		}
		if c.Labels.Agent != "" {
			if agents[c.Labels.Session] == nil {
				agents[c.Labels.Session] = map[string]bool{}
			}
			agents[c.Labels.Session][c.Labels.Agent] = true
			out.Subagents = max(out.Subagents, uint64(len(agents[c.Labels.Session])))
		}
		for _, a := range sums {
			a.Cost = a.Cost.Plus(c.Cost)
			a.Tokens += c.Tokens.Total()
			a.InputTokens += c.Tokens.Input
			a.OutputTokens += c.Tokens.Output
			a.CacheReadTokens += c.Tokens.CacheRead
			a.CacheWriteTokens += c.Tokens.CacheWrite
			a.UnpricedTokens += c.UnpricedTokens
			a.Requests += c.Requests
			a.Approximate = a.Approximate || c.Approximate
			a.Estimated = a.Estimated || c.Estimated
		}
		m := models[canonical(c.Labels.Model)]
		models[canonical(c.Labels.Model)] = Model{canonical(c.Labels.Model), m.Cost + c.Cost.Nano, m.Tokens + c.Tokens.Total()}
	}
	for _, m := range models {
		out.Models = append(out.Models, m)
	}
	sortModels(out.Models) // its order has a test of its own
	out.Model = out.Models[0].Name
	out.Runs, out.HourRuns = uint64(len(runs)), uint64(len(hourRuns))
	return out
}

// agrees fails the test unless the snapshot has every task as the charges and
// turns have it, and the totals as the views spend and turns have them.
func (l *ledger) agrees(t testing.TB, step string, s *Snapshot) {
	t.Helper()
	got := map[string]Task{}
	for x := range s.All() {
		got[x.Name] = x
	}
	if diff := gocmp.Diff(l.expected(t, l.now), got); diff != "" {
		t.Fatalf("%s: the charges (-) and the snapshot (+) differ:\n%s", step, diff)
	}
	rows, err := l.Spend(t.Context(), clickhouse.SpendQuery{By: []string{"task"}, From: noon.AddDate(0, 0, -100), To: noon.AddDate(0, 0, 100)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range rows {
		if r.Keys[0] == "" {
			continue
		}
		n++
		if x, _ := s.Task(r.Keys[0]); x.Total.Cost != r.Cost || x.Total.Tokens != r.Tokens.Total() || x.Total.UnpricedTokens != r.UnpricedTokens {
			t.Fatalf("%s: task %q has %+v, spend %+v", step, r.Keys[0], x.Total, r)
		}
	}
	if n != s.Len() {
		t.Fatalf("%s: %d tasks, spend has %d", step, s.Len(), n)
	}
	l.turnsAgree(t, step, s)
}
