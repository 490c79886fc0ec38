package evaluate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/alerts/deliver"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

// Totals are what tasks spent.
type Totals interface {
	// Snapshot is the latest; nil before the first.
	Snapshot() *tasks.Snapshot
	// Next waits for a newer one than old.
	Next(ctx context.Context, old *tasks.Snapshot) (*tasks.Snapshot, error)
	// Lookup finds a task that the snapshot need not have.
	Lookup(ctx context.Context, name string) (tasks.Task, bool, error)
}

// Turns knows the turns of tasks.
type Turns interface {
	TaskTurns(ctx context.Context, task string, from time.Time) (clickhouse.TaskTurns, error)
}

// Alerts keeps what fires, what was set for tasks, and which of them ended.
type Alerts interface {
	AlertView(ctx context.Context, after time.Time, while time.Duration) (store.AlertView, error)
	ChangeAlerts(ctx context.Context, changes []store.AlertChange, tell bool) ([]store.Alert, error)
}

// Sender delivers alerts.
type Sender interface {
	Send(alerts ...deliver.Alert)
	// Recovered holds a value when a receiver may have forgotten what it was sent.
	Recovered() <-chan struct{}
	// Webhook is nil if there is none.
	Webhook() *deliver.Webhook
}

// Evaluator raises and resolves the alerts of ceilings, and says how tasks stand
// to theirs. One goroutine owns it, in Run; [Evaluator.Standing] and
// [Evaluator.All] may be called by any.
type Evaluator struct {
	cfg      Config
	ceilings *ceiling.Config
	totals   Totals
	turns    Turns
	alerts   Alerts
	sender   Sender
	log      *slog.Logger
	metrics  *metrics

	view atomic.Pointer[view] // never nil

	started time.Time
	judged  *tasks.Snapshot     // the last one, nil before the first
	again   map[string]struct{} // tasks to judge once more
	sent    map[store.AlertID]sending
	blind   map[string]time.Time // what cannot be read, and since when
}

// New returns an evaluator; Run starts it.
func New(cfg Config, ceilings *ceiling.Config, totals Totals, turns Turns, alerts Alerts, sender Sender, log *slog.Logger, reg prometheus.Registerer) *Evaluator {
	e := &Evaluator{
		cfg: cfg, ceilings: ceilings, totals: totals, turns: turns, alerts: alerts, sender: sender,
		log: log.With("component", "alerts"), metrics: newMetrics(reg),
		again: map[string]struct{}{}, sent: map[store.AlertID]sending{}, blind: map[string]time.Time{},
	}
	e.view.Store(&view{})
	return e
}

// patience bounds one evaluation.
const patience = 10 * time.Second

// Run evaluates until ctx ends, as soon as there is a new snapshot, and now and
// then without one. It returns no error: what fails is repeated.
func (e *Evaluator) Run(ctx context.Context) error {
	e.started = time.Now()
	var g errgroup.Group
	renewed := make(chan struct{}, 1)
	g.Go(func() error {
		var last *tasks.Snapshot
		for {
			next, err := e.totals.Next(ctx, last)
			if err != nil {
				return nil //nolint:nilerr // ctx ended
			}
			last = next
			select {
			case renewed <- struct{}{}:
			default:
			}
		}
	})
	for ctx.Err() == nil {
		e.once(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(e.cfg.Every):
		case <-renewed:
		case <-e.sender.Recovered():
			clear(e.sent) // it may have restarted, and know nothing
		}
	}
	return g.Wait()
}

func (e *Evaluator) once(ctx context.Context) {
	begun := time.Now()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := e.look(bounded)
	e.note(ctx, "postgres", err)
	if err == nil {
		err = e.evaluate(bounded)
	}
	if ctx.Err() != nil {
		return
	}
	e.send()
	if err == nil {
		e.metrics.duration.Observe(time.Since(begun).Seconds())
	}
}

// look renews the view.
func (e *Evaluator) look(ctx context.Context) error {
	taken := time.Now()
	v := e.view.Load()
	found, err := e.alerts.AlertView(ctx, v.since(), e.cfg.Remember)
	if err != nil {
		return err
	}
	next, fresh := v.with(found, taken)
	for _, task := range fresh {
		e.again[task] = struct{}{}
	}
	e.view.Store(next)
	return nil
}

// evaluate judges the tasks that may stand otherwise than when they were judged
// last, and changes their alerts.
func (e *Evaluator) evaluate(ctx context.Context) error {
	snapshot, err := e.snapshot()
	if !errors.Is(err, errUnread) || time.Since(e.started) > starting {
		e.note(ctx, "clickhouse", err)
	}
	if err != nil {
		return err
	}
	v := e.view.Load()
	var changes []store.AlertChange
	describing, cancel := context.WithTimeout(ctx, describePatience)
	defer cancel()
	for task := range e.due(snapshot, v) {
		s, ok := e.standingIn(snapshot, v, task)
		if !ok {
			// Nothing of it is left, or it was dropped from memory after days.
			s = stand(e.ceilings, tasks.Task{Name: task}, snapshot.At(), nil, nil)
		}
		for _, c := range judge(&s, e.ceilings.Thresholds, v.alerts[task]) {
			if c.State == store.Firing {
				e.describe(describing, &s, &c.Alert)
			}
			changes = append(changes, c)
			// Until it is seen to be done, also if another replica does it.
			e.again[task] = struct{}{}
		}
	}
	changed, err := e.change(ctx, changes)
	e.note(ctx, "postgres", err)
	if err != nil {
		return err
	}
	e.judged = snapshot
	e.view.Store(v.after(changed))
	e.metrics.evaluated.SetToCurrentTime()
	return nil
}

// errUnread is that of totals that were never read: at first that is no news.
var errUnread = errors.New("the totals of tasks were not read yet")

// starting is how long reading the totals for the first time may take before it
// is worth a word.
const starting = 30 * time.Second

// snapshot is the latest one, if it is worth judging by.
func (e *Evaluator) snapshot() (*tasks.Snapshot, error) {
	s := e.totals.Snapshot()
	switch {
	case s == nil:
		return nil, errUnread
	case s.Age() > e.cfg.Blind:
		return nil, fmt.Errorf("the totals of tasks are %s old", s.Age().Round(time.Second))
	}
	return s, nil
}

// due are the tasks to judge: those that changed, those of which Postgres says
// something new, and those with alerts, which time alone may resolve.
func (e *Evaluator) due(snapshot *tasks.Snapshot, v *view) map[string]struct{} {
	due := e.again
	e.again = map[string]struct{}{}
	for task := range snapshot.Changed(e.judged) {
		due[task] = struct{}{}
	}
	for task := range v.alerts {
		due[task] = struct{}{}
	}
	return due
}

// atOnce bounds what one transaction changes.
const atOnce = 500

func (e *Evaluator) change(ctx context.Context, changes []store.AlertChange) (done []store.Alert, err error) {
	for len(changes) > 0 {
		n := min(len(changes), atOnce)
		changed, err := e.alerts.ChangeAlerts(ctx, changes[:n], e.sender.Webhook() != nil)
		if err != nil {
			return done, err
		}
		changes = changes[n:]
		done = append(done, changed...)
		for i := range changed {
			a := &changed[i]
			e.metrics.transitions.WithLabelValues(a.Alert, string(a.State)).Inc()
			e.log.Info("an alert of a ceiling changed", "action", "alert_"+string(a.State), "alertname", a.Alert, "task", a.Task,
				"threshold", a.Threshold, "episode", a.Episode, "reason", a.Reason)
		}
	}
	return done, nil
}

// note logs the begin and the end of what keeps the evaluator from seeing, once
// each, and counts it.
func (e *Evaluator) note(ctx context.Context, of string, err error) {
	since, was := e.blind[of]
	switch {
	case err != nil && ctx.Err() == nil:
		e.metrics.failures.WithLabelValues(of).Inc()
		if !was {
			e.blind[of] = time.Now()
			e.log.Warn("ceilings are not evaluated; what fires goes on firing", "store", of, "error", err)
		}
	case err == nil && was:
		e.log.Info("ceilings are evaluated again", "store", of, "away_seconds", time.Since(since).Seconds())
		delete(e.blind, of)
	}
}
