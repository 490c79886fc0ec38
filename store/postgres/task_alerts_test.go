package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/store"
)

var ledgerTime = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// viewed is how long views show what was resolved.
const viewed = time.Hour

// crossing is a threshold of a task's, seen at an episode and at seconds of the
// ledger's time.
func crossing(seen int64, second int) store.AlertChange {
	return store.AlertChange{Seen: seen, Alert: store.Alert{
		AlertID:    store.AlertID{Task: "t", Alert: "TaskCostCeiling", Threshold: 80},
		TaskLabels: store.TaskLabels{Project: "p", Repo: "r", Kind: "implement"},
		State:      store.Firing, Value: 21e9, Limit: 25e9, Summary: "s", Description: "d",
		AsOf: ledgerTime.Add(time.Duration(second) * time.Second),
	}}
}

func resolution(seen int64, second int) store.AlertChange {
	c := crossing(seen, second)
	c.State, c.Reason = store.Resolved, "ended"
	return c
}

// change makes one change and returns how many alerts changed.
func changeAlert(t *testing.T, s *Store, c store.AlertChange) int {
	t.Helper()
	done, err := s.ChangeAlerts(t.Context(), []store.AlertChange{c}, viewed, false)
	if err != nil {
		t.Fatal(err)
	}
	return len(done)
}

func view(t *testing.T, s *Store) store.AlertView {
	t.Helper()
	v, err := s.AlertView(t.Context(), time.Time{}, viewed)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAnAlertChangesOnlyAsItWasSeen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i, c := range []struct {
		change store.AlertChange
		want   int
	}{
		{resolution(0, 10), 0}, // there is none
		{crossing(0, 10), 1},
		{crossing(0, 11), 0},   // by another replica
		{crossing(1, 11), 0},   // it fires
		{resolution(1, 9), 0},  // by who sees an older ledger
		{resolution(2, 11), 0}, // of another episode
		{resolution(1, 11), 1},
		{resolution(1, 12), 0},
		{crossing(0, 12), 0},
		{crossing(1, 10), 0}, // by who sees an older ledger
		{crossing(1, 11), 1},
		{resolution(1, 12), 0}, // of the episode before
		{resolution(2, 12), 1},
	} {
		if got := changeAlert(t, s, c.change); got != c.want {
			t.Errorf("step %d: %d alerts changed, want %d", i, got, c.want)
		}
	}
	got := view(t, s).Alerts
	want := resolution(0, 12).Alert
	want.Episode = 2
	if diff := cmp.Diff([]store.Alert{want}, got, cmpopts.IgnoreFields(store.Alert{}, "StartsAt", "EndsAt")); diff != "" {
		t.Error(diff)
	}
	if a := got[0]; a.EndsAt.Before(a.StartsAt) || time.Since(a.EndsAt) > time.Minute {
		t.Errorf("from %v to %v", a.StartsAt, a.EndsAt)
	}
}

// A task that changed its kind keeps the labels of its first crossing, in
// alerts of other names, too.
func TestLabelsAreFrozen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	changeAlert(t, s, crossing(0, 1))
	again := crossing(0, 2)
	again.Alert.Alert, again.Project, again.Kind = "TaskTokenCeiling", "other", "review"
	done, err := s.ChangeAlerts(t.Context(), []store.AlertChange{again}, viewed, false)
	if err != nil || len(done) != 1 || done[0].TaskLabels != crossing(0, 1).TaskLabels {
		t.Errorf("%+v, error %v", done, err)
	}
}

// Of replicas that see the same, one makes each change.
func TestOneReplicaMakesAChange(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const replicas, tasks = 6, 20
	all := func(seen int64, of func(int64, int) store.AlertChange) []store.AlertChange {
		var out []store.AlertChange
		for i := range tasks {
			for _, threshold := range []int{50, 80, 100} {
				c := of(seen, 1)
				c.Task, c.Threshold = string(rune('a'+i)), threshold
				out = append(out, c)
			}
		}
		return out
	}
	for _, changes := range [][]store.AlertChange{all(0, crossing), all(1, resolution), all(1, crossing)} {
		results := make([][]store.Alert, replicas)
		var g errgroup.Group
		for i := range replicas {
			g.Go(func() (err error) {
				mine := slices.Clone(changes)
				if i%2 == 0 {
					slices.Reverse(mine) // a lock order of its own would be a deadlock
				}
				results[i], err = s.ChangeAlerts(t.Context(), mine, viewed, false)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		seen := map[store.AlertID]int{}
		for _, a := range slices.Concat(results...) {
			seen[a.AlertID]++
		}
		if len(seen) != tasks*3 {
			t.Errorf("%d alerts changed, want %d", len(seen), tasks*3)
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%v was changed by %d replicas", id, n)
			}
		}
	}
}

func TestAViewHasWhatIsNew(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	old, err := s.SetCeiling(t.Context(), actor, store.CeilingOverride{Task: "old", Exempt: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.EndTask(t.Context(), actor, "old"); err != nil {
		t.Fatal(err)
	}
	first := view(t, s)
	if diff := cmp.Diff([]store.CeilingOverride{old}, first.Overrides); diff != "" || len(first.Ends) != 1 || len(first.Alerts) > 0 {
		t.Errorf("%+v\n%s", first, diff)
	}
	set, err := s.SetCeiling(t.Context(), actor, store.CeilingOverride{Task: "new", Exempt: true})
	if err != nil {
		t.Fatal(err)
	}
	end, err := s.EndTask(t.Context(), actor, "new")
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.AlertView(t.Context(), first.At, viewed)
	want := store.AlertView{At: second.At, Overrides: []store.CeilingOverride{set}, Ends: []store.TaskEnd{end}}
	if diff := cmp.Diff(want, second, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("error %v\n%s", err, diff)
	}
	// What was resolved long ago is left out.
	changeAlert(t, s, crossing(0, 1))
	changeAlert(t, s, resolution(1, 1))
	execute(t, s, `UPDATE task_alerts SET ends_at = ends_at - interval '61 minutes'`)
	if v := view(t, s); len(v.Alerts) > 0 {
		t.Errorf("%+v", v.Alerts)
	}
}

// Each reader gets every change in order, and again if it fails.
func TestReadersOfAlerts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	changeAlert(t, s, crossing(0, 1)) // not for the webhook
	for _, c := range []store.AlertChange{resolution(1, 1), crossing(1, 2)} {
		if _, err := s.ChangeAlerts(t.Context(), []store.AlertChange{c}, viewed, true); err != nil {
			t.Fatal(err)
		}
	}
	drain := func(reader AlertReader, limit int, fail error) (got []store.AlertEvent) {
		t.Helper()
		n, err := s.AlertsFor(reader).Drain(t.Context(), limit, func(_ context.Context, events []store.AlertEvent) error {
			got = events
			return fail
		})
		if !errors.Is(err, fail) || (fail == nil && n != len(got)) {
			t.Errorf("%d of %d drained, error %v", n, len(got), err)
		}
		return got
	}
	states := func(events []store.AlertEvent) (out []string) {
		for _, e := range events {
			out = append(out, string(e.State))
			if e.Task != "t" || e.Project != "p" || e.Value != 21e9 || e.AsOf.IsZero() || e.At.IsZero() {
				t.Errorf("%+v", e)
			}
		}
		return out
	}
	failed := drain(ToLedger, 2, errors.ErrUnsupported)
	again := drain(ToLedger, 2, nil)
	if diff := cmp.Diff(failed, again); diff != "" {
		t.Errorf("handed out again:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"firing", "resolved"}, states(again)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"resolved", "firing"}, states(drain(ToWebhook, 10, nil))); diff != "" {
		t.Error(diff)
	}
	if n, oldest, err := s.AlertsFor(ToLedger).Backlog(t.Context(), 10); n != 1 || oldest.IsZero() || err != nil {
		t.Errorf("%d wait since %v, error %v", n, oldest, err)
	}
	drain(ToLedger, 10, nil)
	if n := column[int64](t, s, `SELECT count(*) FROM task_alert_outbox`)[0]; n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// What a webhook that is configured no more was to be told holds up nothing.
func TestWhatNoWebhookTakesIsDeleted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, c := range []store.AlertChange{crossing(0, 1), resolution(1, 1)} {
		if _, err := s.ChangeAlerts(t.Context(), []store.AlertChange{c}, viewed, true); err != nil {
			t.Fatal(err)
		}
	}
	take := func(context.Context, []store.AlertEvent) error { return nil }
	if n, err := s.AlertsFor(ToLedger).Drain(t.Context(), 1, take); n != 1 || err != nil {
		t.Fatalf("%d drained, error %v", n, err)
	}
	w, _ := newSweeper(t, s, func(*SweepConfig) {})
	sweep(t, w)
	if n := column[int64](t, s, `SELECT count(*) FROM task_alert_outbox`)[0]; n != 2 {
		t.Errorf("%d rows are left at first", n)
	}
	execute(t, s, `UPDATE task_alert_outbox SET at = at - interval '25 hours'`)
	with, _ := newSweeper(t, s, func(c *SweepConfig) { c.Webhook = true })
	sweep(t, with)
	if n := column[int64](t, s, `SELECT count(*) FROM task_alert_outbox`)[0]; n != 2 {
		t.Errorf("%d rows are left where there is a webhook", n)
	}
	sweep(t, w)
	// The ledger still waits for the other one.
	if n := column[int64](t, s, `SELECT count(*) FROM task_alert_outbox WHERE to_ledger`)[0]; n != 1 {
		t.Errorf("%d rows wait for the ledger", n)
	}
	if n := counted(w.swept.WithLabelValues("webhook_event")); n != 1 {
		t.Errorf("%d deletes were counted", n)
	}
}

// What was resolved so long ago that no view shows it begins anew, by an older
// ledger than it was judged by it does not.
func TestAnAlertOfLongAgoBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	changeAlert(t, s, crossing(0, 1))
	changeAlert(t, s, resolution(1, 5))
	if n := changeAlert(t, s, crossing(0, 6)); n != 0 {
		t.Errorf("%d alerts began by who had not looked", n)
	}
	execute(t, s, `UPDATE task_alerts SET ends_at = ends_at - interval '61 minutes'`)
	for second, want := range map[int]int{4: 0, 6: 1} {
		if n := changeAlert(t, s, crossing(0, second)); n != want {
			t.Errorf("as of second %d: %d alerts began, want %d", second, n, want)
		}
	}
	if a := view(t, s).Alerts; len(a) != 1 || a[0].Episode != 2 || a[0].State != store.Firing {
		t.Errorf("%+v", a)
	}
}

func TestWhatPostgresDoesNotHold(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for name, spoil := range map[string]func(*store.AlertChange){
		"NUL in a task": func(c *store.AlertChange) { c.Task = "a\x00b" },
		"no UTF-8":      func(c *store.AlertChange) { c.Project = "\xff" },
		"NUL in a text": func(c *store.AlertChange) { c.Summary = "\x00" },
	} {
		bad := crossing(0, 1)
		spoil(&bad)
		if _, err := s.ChangeAlerts(t.Context(), []store.AlertChange{bad}, viewed, false); !errors.Is(err, store.ErrUnstorable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of the configurations of live replicas the one that started last counts.
func TestOneConfigurationJudges(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	is := func(want string) {
		t.Helper()
		if got := view(t, s).Judge; got != want {
			t.Errorf("%q judges, want %q", got, want)
		}
	}
	say := func(hash string, started bool) {
		t.Helper()
		if err := s.JudgeBy(t.Context(), hash, started); err != nil {
			t.Fatal(err)
		}
	}
	is("")
	say("old", true)
	is("old")
	say("new", true)
	say("old", false)
	is("new")
	execute(t, s, `UPDATE alert_configurations SET seen_at = seen_at - interval '31 seconds' WHERE hash = 'new'`)
	is("old") // the new one does not start
	say("new", false)
	is("new")
	say("old", true) // rolled back
	is("old")
}
