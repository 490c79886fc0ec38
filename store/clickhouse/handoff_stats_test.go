package clickhouse

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store"
)

const day = 24 * time.Hour

// statsAt asks ten days after the test's present.
func statsAt(q HandoffStatsQuery) HandoffStatsQuery {
	q.Now, q.StaleAfter, q.Keys = at(10*day), 7*day, 2
	if q.From.IsZero() {
		q.From = at(-30 * day)
	}
	if q.To.IsZero() {
		q.To = at(10 * day)
	}
	return q
}

func handoffStats(t testing.TB, s *Store, q HandoffStatsQuery) *HandoffStats {
	t.Helper()
	got, err := s.HandoffStats(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// of puts an event into another project and kind.
func of(project, kind string, e store.Event) store.Event {
	e.Project, e.Kind = project, kind
	return e
}

func TestHandoffStatsOfNothing(t *testing.T) {
	t.Parallel()
	want := &HandoffStats{Size: HandoffSizes{Counts: make([]uint64, len(SizeBounds())+1)}}
	if diff := cmp.Diff(want, handoffStats(t, newStore(t), statsAt(HandoffStatsQuery{}))); diff != "" {
		t.Error(diff)
	}
}

func TestHandoffStatsOfTheState(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	events := []store.Event{
		// demo, implement: ages 10, 9 and 1 days.
		handoffEvent(store.HandoffWritten, "a", 1, 0, "w", 100),
		handoffEvent(store.HandoffWritten, "b", 1, 0, "w", 100),
		handoffEvent(store.HandoffRead, "b", 1, 10*time.Minute, "r", 100),
		handoffEvent(store.HandoffWritten, "b", 2, 1*day, "w", 300),
		handoffEvent(store.HandoffWritten, "c", 1, 9*day, "w", 256),
		handoffEvent(store.HandoffRead, "c", 1, 9*day+time.Minute, "r", 256),
		handoffEvent(store.HandoffRead, "c", 1, 9*day+time.Hour, "r", 256),
		// demo, review: 7 days, which is stale already.
		of("demo", "review", handoffEvent(store.HandoffWritten, "d", 1, 3*day, "w", 70_000)),
		// other
		of("other", "review", handoffEvent(store.HandoffWritten, "e", 1, 5*day, "w", 4096)),
		// gone
		handoffEvent(store.HandoffWritten, "f", 1, 0, "w", 1),
		handoffEvent(store.HandoffDeleted, "f", 1, day, "w", 0),
	}
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	appendChat(t, s, events...)
	appendChat(t, s, events[3:]...)

	got := handoffStats(t, s, statsAt(HandoffStatsQuery{}))
	ref := func(key, kind string, updated time.Duration, bytes, reads uint64) OpenHandoff {
		return OpenHandoff{Key: key, Project: "demo", Repo: "acme/widgets", Kind: kind, UpdatedAt: at(updated), Bytes: bytes, Reads: reads}
	}
	want := &HandoffStats{
		Open: HandoffAges{Count: 5, Stale: 3, NeverRead: 3, UnreadSince: 4, Oldest: 10 * day, MedianAge: 7 * day, P95Age: 10 * day},
		Groups: []HandoffGroup{
			{"demo", "implement", HandoffAges{Count: 3, Stale: 2, NeverRead: 1, UnreadSince: 2, Oldest: 10 * day, MedianAge: 9 * day, P95Age: 10 * day}},
			{"demo", "review", HandoffAges{Count: 1, Stale: 1, NeverRead: 1, UnreadSince: 1, Oldest: 7 * day, MedianAge: 7 * day, P95Age: 7 * day}},
			{"other", "review", HandoffAges{Count: 1, NeverRead: 1, UnreadSince: 1, Oldest: 5 * day, MedianAge: 5 * day, P95Age: 5 * day}},
		},
		// Two of three each.
		Stale:     []OpenHandoff{ref("a", "implement", 0, 100, 0), ref("b", "implement", day, 300, 1)},
		NeverRead: []OpenHandoff{ref("a", "implement", 0, 100, 0), ref("d", "review", 3*day, 70_000, 0)},
		// 100, 256, 300, 4096, 70000
		Size: HandoffSizes{Median: 300, P95: 70_000, Max: 70_000, Counts: []uint64{2, 1, 0, 0, 1, 0, 0, 0, 0, 1}},
		// Written: a, b, b again, c, d, e, f; read: b after 10 min, c after 1 min.
		ReadAfterWrite: ReadAfterWrite{Writes: 7, Read: 2, Median: 10 * time.Minute, P95: 10 * time.Minute},
		Continuations:  Continuations{UnattributedReads: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	q := statsAt(HandoffStatsQuery{Projects: []string{"demo", "'; DROP TABLE x"}, Kinds: []string{"implement"}, Repos: []string{"acme/widgets"}, From: at(day), To: at(9 * day)})
	got = handoffStats(t, s, q)
	if got.Open != want.Groups[0].HandoffAges || len(got.Groups) != 1 || got.Size.Max != 300 {
		t.Errorf("filtered: %+v", got)
	}
	if diff := cmp.Diff(ReadAfterWrite{Writes: 1}, got.ReadAfterWrite); diff != "" { // from is inclusive, to is not
		t.Error(diff)
	}
}

// context is a call of a run with a prompt of so many tokens.
func contextCall(run string, t time.Duration, tokens uint64, row string) usage.Charge {
	c := charge(run+t.String()+row, at(t), "implement", 1)
	c.FactRun, c.Labels.Run, c.PriceRow = run, run, row
	c.Tokens = usage.Tokens{Input: 10, CacheRead: tokens - 30, CacheWrite: 20, Output: 5000}
	return c
}

func TestContinuations(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const m = time.Minute
	sub := contextCall("run-1", -30*time.Second, 500_000, "row-sub")
	sub.Labels.Agent = "explorer"
	covered := contextCall("run-1", -20*time.Second, 600_000, "row-covered")
	covered.Counted = false
	counters := contextCall("run-2", 9*m, 700_000, "row-push")
	counters.Feed, counters.Requests = usage.FeedPush, 0
	ofSession := contextCall("", 20*m, 30_000, "") // names its session only; a link ties it to run-4; unpriced
	ofSession.Labels.Run, ofSession.Labels.Session = "run-4", "session-4"
	stranger := contextCall("", 20*m, 900_000, "row-stranger") // a call of nobody
	write(t, s, 1, Derived{Charges: []usage.Charge{
		contextCall("run-1", -10*m, 1000, "row-old"), contextCall("run-1", -m, 42_010, "row-a"),
		contextCall("run-1", 5*m, 50_000, "row-b"), sub, covered, counters, ofSession, stranger,
		contextCall("run-5", -50*m, 80, "row-a"),
	}})
	// A charge that was derived anew.
	again := contextCall("run-1", -m, 42_010, "row-a")
	write(t, s, 3, Derived{Charges: []usage.Charge{again}, GoneCharges: []usage.Charge{contextCall("run-1", -10*m, 1000, "row-old")}})

	call := usage.Event{ID: usage.Hash("x"), Content: usage.Hash("x"), Feed: usage.FeedCall, Time: at(0), Arrived: at(0), Labels: usage.Labels{Run: "run-1"}}
	link := func(run, session, key string, arrived time.Duration) usage.Link {
		return usage.Link{Run: run, Session: session, HandoffKey: key, Arrived: at(arrived)}
	}
	err := s.AppendFacts(t.Context(), 1, &usage.Facts{
		Events:  []usage.Event{call},
		Samples: []usage.Sample{{Run: "run-2", ID: usage.Hash("s"), Arrived: at(9 * m)}},
		Links: []usage.Link{
			link("run-3", "", "", 0), link("run-4", "session-4", "", 0),
			link("run-5", "", "linked", -time.Hour), link("run-6", "", "linked", time.Hour), link("run-7", "", "linked", 9*time.Hour),
		},
	})
	if err != nil {
		t.Fatal(err)
	}

	events := []store.Event{
		handoffEvent(store.HandoffWritten, "k", 1, 0, "run-1", 400), // 100 tokens
		handoffEvent(store.HandoffRead, "k", 1, m, "run-1", 400),    // its own
		handoffEvent(store.HandoffRead, "k", 1, 3*m, "run-2", 400),
		handoffEvent(store.HandoffRead, "k", 1, 4*m, "run-2", 400), // again
		handoffEvent(store.HandoffRead, "k", 1, 6*m, "run-3", 400), // run-1 had gone on
		handoffEvent(store.HandoffRead, "k", 1, 7*m, "curl", 400),  // of nobody

		handoffEvent(store.HandoffWritten, "k", 2, 10*m, "run-2", 400), // counters do not know contexts
		handoffEvent(store.HandoffRead, "k", 2, 11*m, "run-3", 400),

		handoffEvent(store.HandoffWritten, "k", 3, 21*m, "run-4", 401), // 101 tokens
		handoffEvent(store.HandoffRead, "k", 3, 22*m, "run-1", 401),

		// Callers whose request ids are none of a run: links say who it was.
		handoffEvent(store.HandoffWritten, "linked", 1, 0, "req-1", 4000), // by run-5; larger than its context
		handoffEvent(store.HandoffRead, "linked", 1, m, "req-2", 4000),    // by run-5 itself
		handoffEvent(store.HandoffRead, "linked", 1, 2*time.Hour, "req-3", 4000),
		handoffEvent(store.HandoffRead, "linked", 1, 3*time.Hour, "req-4", 4000), // run-6 both

		handoffEvent(store.HandoffWritten, "nobody's", 1, 0, "req-5", 4),
		handoffEvent(store.HandoffRead, "nobody's", 1, m, "run-3", 4),
	}
	want := Continuations{
		Count: 6, Estimated: 4, Unknown: 2, UnattributedReads: 1,
		SavedTokens: 41_910 + 49_900 + 29_899,
		Rows:        []RowTokens{{"", 29_899}, {"row-a", 41_910}, {"row-b", 49_900}},
	}
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, part := range [][]store.Event{events[:7], events[4:], events} {
		appendChat(t, s, part...)
	}
	if diff := cmp.Diff(want, handoffStats(t, s, statsAt(HandoffStatsQuery{})).Continuations); diff != "" {
		t.Error(diff)
	}
	// The range is that of the first reads.
	got := handoffStats(t, s, statsAt(HandoffStatsQuery{From: at(5 * m), To: at(11 * m)})).Continuations
	if diff := cmp.Diff(Continuations{Count: 1, Estimated: 1, UnattributedReads: 1, SavedTokens: 49_900, Rows: []RowTokens{{"row-b", 49_900}}}, got); diff != "" {
		t.Error(diff)
	}
}
