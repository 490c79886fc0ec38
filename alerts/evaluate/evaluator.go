package evaluate

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/alerts/deliver"
	"github.com/szymonrychu/tatara-ledger/store"
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

// Alerts keeps what fires, what was set for tasks, and which of them ended.
type Alerts interface {
	JudgeBy(ctx context.Context, hash string, started bool) error
	AlertView(ctx context.Context, after time.Time, while time.Duration) (store.AlertView, error)
	ChangeAlerts(ctx context.Context, changes []store.AlertChange, while time.Duration, tell bool) ([]store.Alert, error)
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
	alerts   Alerts
	sender   Sender
	log      *slog.Logger
	metrics  *metrics

	view atomic.Pointer[view] // never nil

	started   time.Time
	announced time.Time           // when we last said by what we judge
	judged    *tasks.Snapshot     // the last one, nil before the first
	seen      time.Time           // since when snapshots were judged without a gap, by the ledger's clock
	again     map[string]struct{} // tasks to judge once more
	sent      map[store.AlertID]sending
	blind     map[string]time.Time // what cannot be read, and since when
	aside     bool                 // another configuration judges
	// unnameable are tasks that were passed over: see [storable].
	unnameable map[string]struct{}
}

// New returns an evaluator; Run starts it.
func New(cfg Config, ceilings *ceiling.Config, totals Totals, alerts Alerts, sender Sender, log *slog.Logger, reg prometheus.Registerer) *Evaluator {
	e := &Evaluator{
		cfg: cfg, ceilings: ceilings, totals: totals, alerts: alerts, sender: sender,
		log: log.With("component", "alerts"), metrics: newMetrics(reg),
		again: map[string]struct{}{}, sent: map[store.AlertID]sending{}, blind: map[string]time.Time{}, unnameable: map[string]struct{}{},
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
	e.metrics.evaluated.SetToCurrentTime() // its age counts from now
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
	if err == nil {
		err = e.evaluate(bounded)
	}
	if ctx.Err() != nil {
		return
	}
	var unread *readError
	switch {
	case errors.As(err, &unread): // Postgres was asked before, and answered
		e.note("postgres", nil)
		e.note("clickhouse", err)
	case err != nil:
		e.note("postgres", err) // of ClickHouse nothing is known
	default:
		e.note("postgres", nil)
		e.note("clickhouse", nil)
	}
	e.send()
	if err == nil {
		e.metrics.duration.Observe(time.Since(begun).Seconds())
	}
}

// announceEvery is how often a replica says by what it judges, well within the
// time for which that counts.
const announceEvery = 5 * time.Second

// look renews the view.
func (e *Evaluator) look(ctx context.Context) error {
	if time.Since(e.announced) >= announceEvery {
		if err := e.alerts.JudgeBy(ctx, e.cfg.Judge, e.announced.IsZero()); err != nil {
			return err
		}
		e.announced = time.Now()
	}
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
	v := e.view.Load()
	if e.stepAside(v) {
		return nil
	}
	snapshot, err := e.snapshot()
	if err != nil || snapshot == nil {
		return err
	}
	if e.judged == nil || snapshot.At().Sub(e.judged.At()) > gap {
		e.seen = snapshot.At()
	}
	silent := snapshot.At().Sub(e.seen) > e.ceilings.Quiet
	var changes []store.AlertChange
	for task := range e.due(snapshot, v) {
		if !storable(task) {
			e.unnameable[task] = struct{}{}
			continue
		}
		s, ok := e.standingIn(snapshot, v, task)
		if !ok {
			// Nothing of it is left, or it was dropped from memory after days.
			s = stand(e.ceilings, tasks.Task{Name: task}, snapshot.At(), nil, nil)
		}
		for _, c := range judge(&s, e.ceilings.Thresholds, silent, v.alerts[task]) {
			if c.State == store.Firing {
				describe(&s, &c.Alert)
			}
			changes = append(changes, c)
			// Until it is seen to be done, also if another replica does it.
			e.again[task] = struct{}{}
		}
	}
	changed, err := e.change(ctx, changes)
	if err != nil {
		return err
	}
	e.metrics.unnameable.Set(float64(len(e.unnameable)))
	e.metrics.pending.Set(float64(len(changes) - len(changed)))
	e.judged = snapshot
	e.view.Store(v.after(changed))
	e.metrics.evaluated.SetToCurrentTime()
	return nil
}

// gap is a time without a judgement after which nothing is taken for silent that
// may only be unread.
const gap = time.Minute

// stepAside reports whether another configuration judges, and says so once.
func (e *Evaluator) stepAside(v *view) bool {
	aside := v.judge != e.cfg.Judge
	switch {
	case aside && !e.aside:
		e.log.Info("another replica's ceilings or prices count, since it started later; this one judges no task")
	case !aside && e.aside:
		e.log.Info("this replica's ceilings and prices count again")
	}
	if e.aside = aside; aside {
		e.judged = nil // all tasks, once it is our turn
	}
	return aside
}

// storable reports whether Postgres holds a task's name. Receivers take no other;
// the ledger may have older ones.
func storable(task string) bool {
	return utf8.ValidString(task) && !strings.ContainsRune(task, 0)
}

// readError says that the totals of tasks cannot be judged by.
type readError struct{ why string }

func (e *readError) Error() string { return "the totals of tasks " + e.why }

// starting is how long reading the totals for the first time may take before it
// is worth a word.
const starting = 30 * time.Second

// snapshot is the latest one, if it is worth judging by; nil while it is read
// for the first time.
func (e *Evaluator) snapshot() (*tasks.Snapshot, error) {
	s := e.totals.Snapshot()
	switch {
	case s == nil && time.Since(e.started) < starting:
		return nil, nil //nolint:nilnil // it is no news yet
	case s == nil:
		return nil, &readError{"were not read yet"}
	case s.Age() > e.cfg.Blind:
		return nil, &readError{"are " + s.Age().Round(time.Second).String() + " old"}
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
		changed, err := e.changeSome(ctx, changes[:n])
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

// changeSome makes changes in one transaction. If Postgres does not hold one of
// them, it is looked for by halves and left out.
func (e *Evaluator) changeSome(ctx context.Context, changes []store.AlertChange) ([]store.Alert, error) {
	done, err := e.alerts.ChangeAlerts(ctx, changes, e.cfg.Remember, e.sender.Webhook() != nil)
	if !errors.Is(err, store.ErrUnstorable) {
		return done, err
	}
	if len(changes) == 1 {
		c := &changes[0]
		e.metrics.failures.WithLabelValues("postgres").Inc()
		e.log.Error("an alert cannot be kept", "alertname", c.Alert.Alert, "task", c.Task, "threshold", c.Threshold, "error", err)
		return nil, nil
	}
	half := len(changes) / 2
	if done, err = e.changeSome(ctx, changes[:half]); err != nil {
		return done, err
	}
	more, err := e.changeSome(ctx, changes[half:])
	return append(done, more...), err
}

// note logs the begin and the end of what keeps the evaluator from seeing, once
// each, and counts it.
func (e *Evaluator) note(of string, err error) {
	since, was := e.blind[of]
	switch {
	case err != nil:
		e.metrics.failures.WithLabelValues(of).Inc()
		if !was {
			e.blind[of] = time.Now()
			e.log.Warn("ceilings are not evaluated; what fires goes on firing", "store", of, "error", err)
		}
	case was:
		e.log.Info("ceilings are evaluated again", "store", of, "away_seconds", time.Since(since).Seconds())
		delete(e.blind, of)
	}
}
