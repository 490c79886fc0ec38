package evaluate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

// bubble runs a test with a world whose clock moves when all wait, so that every
// time in it is exact.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

// pass lets time go on, and everything happen that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// offBeat lies between two ticks of the watcher, and of the evaluator.
const offBeat = 500 * time.Millisecond

// crossed is a world in which a task has just crossed 50 and 80 % of its limit,
// and the messages about it were taken.
func crossed(w *world) *replica {
	w.watch()
	r := w.start(limits)
	pass(offBeat)
	w.spend(worth("t", 9))
	synctest.Wait()
	if sent := r.take(); len(sent) != 2 {
		w.t.Fatalf("sent at the crossing: %v", sent)
	}
	return r
}

var errAway = errors.New("away")

func TestFiresOnceAndAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.watch()
		w.spend(worth("calm", 1), worth("t", 1))
		r := w.start(limits)
		pass(3*time.Second + offBeat)
		if sent := r.take(); len(sent) > 0 || r.firing() != 0 {
			t.Fatalf("without a crossing: %v, %v fire", sent, r.firing())
		}
		w.spend(worth("t", 9))
		synctest.Wait() // and no time goes by
		sent := r.take()
		if len(sent) != 2 {
			t.Fatalf("%d alerts were sent, want 2: %v", len(sent), sent)
		}
		for i, threshold := range []int{50, 80} {
			m, row := sent[i], w.row("t", threshold)
			labels := map[string]string{
				"alertname": "TaskCostCeiling", "severity": "warning", "system": "tatara", "component": "tasks",
				"project": "p", "repo": "r", "kind": "implement", "task": "t", "threshold": fmt.Sprint(threshold),
			}
			if diff := cmp.Diff(labels, m.Labels); diff != "" {
				t.Error(diff)
			}
			if m.at != 3*time.Second+offBeat || m.lasts != hold || !m.StartsAt.Equal(row.StartsAt) {
				t.Errorf("%d %%: sent after %v, fires for %v, since %v; the row says %v", threshold, m.at, m.lasts, m.StartsAt, row.StartsAt)
			}
			if row.Episode != 1 || row.Value != 9e9 || row.Limit != 10e9 || row.State != store.Firing {
				t.Errorf("%d %%: %+v", threshold, row)
			}
		}
		pass(20 * time.Second)
		w.spend(worth("t", 9.5))
		pass(5 * time.Second)
		if sent := r.take(); len(sent) > 0 || w.row("t", 80).Episode != 1 {
			t.Errorf("it was sent again though nothing changed: %v", sent)
		}
		if r.transitions(store.Firing) != 2 || r.firing() != 2 {
			t.Errorf("%v transitions, %v fire; want 2 and 2", r.transitions(store.Firing), r.firing())
		}
		if last := r.evaluated(); last != 28*time.Second || r.judged != w.Snapshot() {
			t.Errorf("last evaluated after %v, want 28s, and what changed since the last snapshot alone", last)
		}
		w.spend(worth("t", 10))
		synctest.Wait()
		if sent := r.take(); len(sent) != 1 || sent[0].Labels["threshold"] != "100" || sent[0].Labels["severity"] != "critical" {
			t.Errorf("at the limit: %v", sent)
		}
	})
}

// As configured by default.
const (
	hold   = 30 * time.Minute
	settle = 12 * time.Second
)

func TestSendsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := crossed(w)
		pass(10 * time.Minute)
		sent := r.takeOf("80")
		if len(sent) < 19 || len(sent) > 20 {
			t.Errorf("sent again %d times in 10 minutes", len(sent))
		}
		last := offBeat
		for _, m := range sent {
			if gap := m.at - last; gap < 30*time.Second || gap > 31*time.Second {
				t.Errorf("%v lie between two sendings, want 30 s", gap)
			}
			last = m.at
			if m.lasts != hold || !m.StartsAt.Equal(w.row("t", 80).StartsAt) {
				t.Errorf("after %v: fires for %v, since %v", m.at, m.lasts, m.StartsAt)
			}
		}
	})
}

func TestSendsAllAgainWhenAReceiverMayHaveForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := crossed(w)
		w.spend(worth("u", 6))
		w.end("t")
		pass(20 * time.Second)
		r.take()
		r.recovered <- struct{}{}
		synctest.Wait()
		got := map[string]bool{} // whether it fires
		for _, m := range r.take() {
			got[m.Labels["task"]+m.Labels["threshold"]] = m.lasts > 0
		}
		if diff := cmp.Diff(map[string]bool{"t50": false, "t80": false, "u50": true}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBlindJudgesNothingAndSendsOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := crossed(w)
		w.set(func() { w.paused = true })
		pass(11 * time.Second)
		seen := r.evaluated()
		w.end("t") // which only a fresh snapshot may be judged by
		pass(10 * time.Minute)
		if a := w.row("t", 80); a.State != store.Firing || r.firing() != 2 {
			t.Errorf("blind, it was judged: %+v", a)
		}
		if sent := r.takeOf("80"); len(sent) < 19 || sent[len(sent)-1].lasts != hold {
			t.Errorf("blind, it was sent %d times", len(sent))
		}
		if now := r.evaluated(); now != seen || now > 11*time.Second {
			t.Errorf("it says that it evaluated after %v, and before after %v", now, seen)
		}
		if n := r.failures("clickhouse"); n < 590 || r.failures("postgres") != 0 {
			t.Errorf("%v failures of ClickHouse and %v of Postgres are counted", n, r.failures("postgres"))
		}
		w.set(func() { w.paused = false })
		pass(2 * time.Second)
		if a := w.row("t", 80); a.State != store.Resolved || a.Reason != becauseEnded {
			t.Errorf("seeing again: %+v", a)
		}
		if warned, informed := r.log.lines("level=WARN", "clickhouse"), r.log.lines("level=INFO", "evaluated again"); warned != 1 || informed != 1 {
			t.Errorf("%d warnings and %d all-clears, want one each", warned, informed)
		}
	})
}

func TestTheFirstSnapshotMayTakeAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(limits)
		pass(29 * time.Second)
		if n := r.failures("clickhouse"); n != 0 {
			t.Errorf("%v failures within the first 30 s", n)
		}
		pass(5 * time.Second)
		if n := r.failures("clickhouse"); n == 0 || r.log.lines("level=WARN") != 1 {
			t.Errorf("%v failures after 34 s", n)
		}
		w.spend(worth("t", 9))
		synctest.Wait()
		if sent := r.take(); len(sent) != 2 {
			t.Errorf("with the first snapshot: %v", sent)
		}
	})
}

func TestPostgresAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := crossed(w)
		w.set(func() { w.viewFails, w.changes = errAway, func(func()) error { return errAway } })
		w.spend(worth("t", 9), worth("u", 6))
		pass(10 * time.Minute)
		// Others may have resolved what it knows to fire. What was sent holds.
		if sent := r.take(); len(sent) > 0 {
			t.Errorf("sent without Postgres: %v", sent)
		}
		if n := r.failures("postgres"); n < 590 || r.failures("clickhouse") != 0 {
			t.Errorf("%v failures of Postgres and %v of ClickHouse are counted", n, r.failures("clickhouse"))
		}
		w.set(func() { w.viewFails, w.changes = nil, func(apply func()) error { apply(); return nil } })
		pass(2 * time.Second)
		if a := w.row("u", 50); a.State != store.Firing || a.Episode != 1 {
			t.Errorf("the crossing meanwhile: %+v", a)
		}
		if w.row("t", 80).Episode != 1 {
			t.Error("what fired before began anew")
		}
		if warned, informed := r.log.lines("level=WARN", "postgres"), r.log.lines("level=INFO", "evaluated again"); warned != 1 || informed != 1 {
			t.Errorf("%d warnings and %d all-clears, want one each", warned, informed)
		}
	})
}

// The task does not change any more: that it crossed must not be forgotten.
func TestAChangeThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	limit := int64(1e9)
	lower := store.CeilingOverride{Task: "t", CostNano: &limit}
	for name, c := range map[string]struct {
		cross   func(*world)
		applied bool // and only the answer is lost
	}{
		"of the ledger":         {func(w *world) { w.spend(worth("t", 9)) }, false},
		"of an override":        {func(w *world) { w.override(lower) }, false},
		"of the ledger, made":   {func(w *world) { w.spend(worth("t", 9)) }, true},
		"of an override, made":  {func(w *world) { w.override(lower) }, true},
		"of both, and not made": {func(w *world) { w.override(lower); w.spend(worth("t", 9)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.watch()
				w.spend(worth("t", 0.9), worth("other", 0.1))
				r := w.start(limits)
				pass(offBeat)
				tried := 0
				w.set(func() {
					w.changes = func(apply func()) error {
						if tried++; tried > 3 {
							apply()
							return nil
						}
						if c.applied {
							apply()
						}
						return errAway
					}
				})
				c.cross(w)
				pass(10 * time.Second)
				if a := w.row("t", 80); a.State != store.Firing || a.Episode != 1 {
					t.Errorf("%+v", a)
				}
				if sent := r.takeOf("80"); len(sent) != 1 {
					t.Errorf("sent: %v", sent)
				}
			})
		})
	}
}

func TestWhatAnotherReplicaRaisedIsSentToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.watch()
		one, other := w.start(limits), w.start(limits)
		pass(offBeat)
		w.spend(worth("t", 9))
		pass(time.Second)
		for i, r := range []*replica{one, other} {
			if sent := r.take(); len(sent) != 2 || sent[0].Labels["task"] != "t" || r.firing() != 2 {
				t.Errorf("replica %d sent %v", i, sent)
			}
		}
		if n := one.transitions(store.Firing) + other.transitions(store.Firing); n != 2 || w.row("t", 80).Episode != 1 {
			t.Errorf("%v alerts began to fire, want 2", n)
		}
		// One that this ledger shows no reason for.
		id := costAlert("u", 80)
		w.set(func() {
			w.rows[id] = store.Alert{AlertID: id, State: store.Firing, Episode: 7, AsOf: time.Now().Add(time.Hour), StartsAt: time.Now()}
		})
		pass(time.Second)
		for i, r := range []*replica{one, other} {
			if sent := r.take(); len(sent) != 1 || sent[0].Labels["task"] != "u" {
				t.Errorf("replica %d sent %v", i, sent)
			}
		}
		if a := w.row("u", 80); a.State != store.Firing {
			t.Errorf("it was resolved by an older ledger: %+v", a)
		}
	})
}

func TestAResolvedAlertIsSentWhenItSettledAndForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := crossed(w)
		pass(29 * time.Second) // so that sending it again falls into what must settle
		w.end("t")
		pass(time.Hour)
		row := w.row("t", 80)
		if row.State != store.Resolved || row.Reason != becauseEnded || row.Episode != 1 {
			t.Fatalf("%+v", row)
		}
		resolved := row.EndsAt.Add(-skew).Sub(w.begin)
		sent := r.takeOf("80")
		for _, m := range sent {
			if since := m.at - resolved; since < settle || since > 15*time.Minute+time.Second {
				t.Errorf("sent %v after its end", since)
			}
			if !m.EndsAt.Equal(row.EndsAt) || !m.StartsAt.Equal(row.StartsAt) {
				t.Errorf("sent as %v to %v, want %v to %v", m.StartsAt, m.EndsAt, row.StartsAt, row.EndsAt)
			}
		}
		if len(sent) < 29 || sent[0].at-resolved > settle+time.Second {
			t.Errorf("sent %d times as resolved, first after %v", len(sent), sent[0].at-resolved)
		}
		if r.firing() != 0 || r.transitions(store.Resolved) != 2 {
			t.Errorf("%v fire, %v were resolved", r.firing(), r.transitions(store.Resolved))
		}
	})
}

// Nothing changes of a task that goes quiet but the time.
func TestTimeAloneResolves(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.watch()
		r := w.start(strings.Replace(limits, "2h", "10m", 1))
		pass(offBeat)
		w.spend(worth("t", 9)) // until a minute later
		pass(10 * time.Minute)
		if a := w.row("t", 80); a.State != store.Firing {
			t.Errorf("too early: %+v", a)
		}
		pass(70 * time.Second)
		if a := w.row("t", 80); a.State != store.Resolved || a.Reason != becauseQuiet || r.firing() != 0 {
			t.Errorf("%+v", a)
		}
	})
}

func TestAnOverrideResolves(t *testing.T) {
	t.Parallel()
	hundred := int64(100e9)
	for name, o := range map[string]store.CeilingOverride{
		"raised": {Task: "t", CostNano: &hundred},
		"exempt": {Task: "t", Exempt: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				r := crossed(w)
				w.override(o)
				pass(time.Second)
				for _, threshold := range []int{50, 80} {
					if a := w.row("t", threshold); a.State != store.Resolved || a.Reason != becauseRaised {
						t.Errorf("%d %%: %+v", threshold, a)
					}
				}
				if s, err := r.Standing(t.Context(), "t"); err != nil || s.State != OK || s.Override == nil {
					t.Errorf("it stands as %+v, error %v", s, err)
				}
			})
		})
	}
}

func TestHundredsCrossAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.watch()
		r := w.start(limits)
		var all []tasks.Task
		for i := range 400 {
			all = append(all, worth(fmt.Sprint("t", i), 9))
		}
		pass(offBeat)
		w.spend(all...)
		synctest.Wait()
		sent := r.take()
		if len(sent) != 800 {
			t.Fatalf("%d alerts were sent at once, want 800", len(sent))
		}
		for _, m := range sent {
			if text := m.Annotations["description"]; !strings.Contains(text, "Cost $9") || strings.Contains(text, "Last turn") {
				t.Fatalf("without turns: %q", text)
			}
		}
		if w.largest > atOnce {
			t.Errorf("%d changes in one transaction", w.largest)
		}
		turned := worth("u", 6)
		turned.Turns = tasks.Turns{Count: 1, ByResult: []tasks.TurnResult{{Result: "error", Count: 1}}, Last: noon, LastResult: "error"}
		w.spend(turned)
		synctest.Wait()
		if sent := r.take(); len(sent) != 1 || !strings.Contains(sent[0].Annotations["description"], "Last turn: error at 2026-12-01T12:02:00Z.") {
			t.Errorf("with turns: %v", sent)
		}
	})
}

func TestAnswersAreFreshOrNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(limits)
		asked := func(task string) error {
			t.Helper()
			_, err := r.Standing(t.Context(), task)
			if _, _, e := r.All(); errors.Is(e, store.ErrUnavailable) != errors.Is(err, store.ErrUnavailable) {
				t.Errorf("all: error %v; one: %v", e, err)
			}
			return err
		}
		pass(offBeat)
		if err := asked("t"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("before the first snapshot: %v", err)
		}
		w.watch()
		w.spend(worth("t", 9))
		for task, want := range map[string]error{"t": nil, "dropped": nil, "unheard of": store.ErrNotFound} {
			if err := asked(task); !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", task, err, want)
			}
		}
		if s, err := r.Standing(t.Context(), "t"); err != nil || s.State != Warn {
			t.Errorf("%+v, error %v", s, err)
		}
		w.set(func() { w.viewFails = errAway })
		pass(time.Second)
		if err := asked("t"); err != nil {
			t.Errorf("Postgres away for a second: %v", err)
		}
		pass(2 * time.Second)
		if err := asked("t"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Postgres away for three seconds: %v", err)
		}
		w.set(func() { w.viewFails, w.paused = nil, true })
		pass(time.Second)
		if err := asked("t"); err != nil {
			t.Errorf("ClickHouse away for a second: %v", err)
		}
		pass(2 * time.Second)
		if err := asked("t"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("ClickHouse away for three seconds: %v", err)
		}
	})
}

// An alert of long ago is in no view any more.
func TestFiresAnewHoweverLongAgo(t *testing.T) {
	for _, after := range []time.Duration{time.Minute, 10 * time.Minute, 20 * time.Minute, 90 * time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				crossed(w)
				w.end("t")
				pass(after)
				w.spend(worth("t", 9.5)) // it went on
				pass(5 * time.Second)
				if late := after > endGrace; late != (w.row("t", 80).State == store.Firing) || late && w.row("t", 80).Episode != 2 {
					t.Errorf("%+v", w.row("t", 80))
				}
			})
		})
	}
}

// While another file of ceilings is rolled out, replicas do not undo what each
// other does: the one that started last judges.
func TestOneOfTwoConfigurationsJudges(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.watch()
		old := w.start(limits)
		pass(offBeat)
		w.spend(worth("t", 9))
		pass(10 * time.Second)
		fresh := w.start(strings.Replace(limits, "usd: 10", "usd: 100", 1))
		pass(5 * time.Minute)
		if a := w.row("t", 80); a.State != store.Resolved || a.Reason != becauseRaised || a.Episode != 1 {
			t.Errorf("%+v", a)
		}
		if old.transitions(store.Firing) != 2 || fresh.transitions(store.Resolved) != 2 || old.log.lines("judges no task") != 1 {
			t.Errorf("%v fired, %v resolved", old.transitions(store.Firing), fresh.transitions(store.Resolved))
		}
		if a, b := old.evaluated(), fresh.evaluated(); b-a < 4*time.Minute {
			t.Errorf("evaluated after %v and %v", a, b)
		}
		// Both send what is so.
		for _, r := range []*replica{old, fresh} {
			if sent := r.takeOf("80"); len(sent) == 0 || sent[len(sent)-1].lasts > 0 {
				t.Errorf("sent last: %v", sent)
			}
		}
		w.set(func() { w.judges = w.judges[:1] }) // the new one is gone
		pass(5 * time.Second)
		if a := w.row("t", 80); a.State != store.Firing || a.Episode != 2 {
			t.Errorf("without it: %+v", a)
		}
	})
}

// What was spent while ClickHouse was away is known later: until it is, nothing
// is quiet.
func TestATaskThatWentOnDuringAnOutageIsNotQuiet(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := crossed(w)
		pass(3 * time.Second)
		w.set(func() { w.paused = true })
		pass(130 * time.Minute) // longer than quiet
		w.set(func() { w.paused = false })
		pass(5 * time.Minute) // the journal drains
		w.spend(worth("t", 9.5))
		pass(time.Minute)
		if a := w.row("t", 80); a.State != store.Firing || a.Episode != 1 || r.transitions(store.Resolved) != 0 {
			t.Errorf("%+v", a)
		}
		pass(3 * time.Hour)
		if a := w.row("t", 80); a.State != store.Resolved || a.Reason != becauseQuiet {
			t.Errorf("hours later: %+v", a)
		}
	})
}

// A crossing that Postgres does not hold keeps no other from being kept.
func TestAChangeThatCannotBeKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.watch()
		r := w.start(limits)
		pass(offBeat)
		w.set(func() { w.unstorable = "bad" })
		w.spend(worth("a", 6), worth("bad", 6), worth("c", 6), worth("nul\x00", 6), worth("\xff", 6))
		pass(3 * time.Second)
		for task, want := range map[string]store.AlertState{"a": store.Firing, "bad": "", "c": store.Firing, "nul\x00": "", "\xff": ""} {
			if a := w.row(task, 50); a.State != want {
				t.Errorf("%q: %+v", task, a)
			}
		}
		none := map[string]string{}
		if n := r.metric("tatara_ledger_alerts_unnameable_tasks", none); n != 2 || r.failures("postgres") == 0 || r.metric("tatara_ledger_alerts_pending_changes", none) != 1 {
			t.Errorf("%v tasks without a name, %v failures", n, r.failures("postgres"))
		}
	})
}

// Each store has its own all-clear, whatever the other one does.
func TestPostgresIsBackWhileClickHouseIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := crossed(w)
		w.set(func() { w.viewFails, w.paused = errAway, true })
		pass(20 * time.Second)
		w.set(func() { w.viewFails = nil })
		pass(5 * time.Second)
		if back, away := r.log.lines("level=INFO", "evaluated again", "postgres"), r.log.lines("level=WARN", "clickhouse"); back != 1 || away != 1 {
			t.Errorf("%d all-clears of Postgres, %d warnings of ClickHouse", back, away)
		}
	})
}
