package evaluate

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/alerts/deliver"
	"github.com/szymonrychu/tatara-ledger/store"
	"github.com/szymonrychu/tatara-ledger/tasks"
)

// skew is how far Postgres' clock is from ours and ClickHouse's. Ends of tasks
// allow for [endGrace].
const skew = -2 * time.Minute

// world is both stores, in memory, shared by all replicas of a test. It changes
// alerts by the rules of the real store. It lives inside a bubble of synctest.
type world struct {
	t     *testing.T
	begin time.Time

	mu       sync.Mutex
	snapshot *tasks.Snapshot
	replaced chan struct{} // closed when there is a newer snapshot
	paused   bool          // ClickHouse is away: no snapshot is made

	rows       map[store.AlertID]store.Alert
	labels     map[string]store.TaskLabels
	overrides  map[string]store.CeilingOverride
	ends       map[string]store.TaskEnd
	viewFails  error
	judges     []string                 // by when they started
	unstorable string                   // a task that Postgres does not hold
	changes    func(apply func()) error // runs apply or not
	largest    int                      // changes in one transaction
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, begin: time.Now(), replaced: make(chan struct{}),
		rows: map[store.AlertID]store.Alert{}, labels: map[string]store.TaskLabels{},
		overrides: map[string]store.CeilingOverride{}, ends: map[string]store.TaskEnd{},
		changes: func(apply func()) error { apply(); return nil },
	}
	return w
}

// watch makes a snapshot every second, as the watcher does.
func (w *world) watch() {
	w.spend()
	go func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-w.t.Context().Done():
				tick.Stop()
				return
			case <-tick.C:
				w.spend()
			}
		}
	}()
}

// spend makes a snapshot with these tasks as they now are.
func (w *world) spend(changed ...tasks.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused {
		return
	}
	if w.snapshot == nil {
		w.snapshot = tasks.SnapshotOf(time.Now(), changed...)
	} else {
		w.snapshot = w.snapshot.With(time.Now(), changed...)
	}
	close(w.replaced)
	w.replaced = make(chan struct{})
}

// set changes the world while its replicas run.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) override(o store.CeilingOverride) {
	w.set(func() {
		o.SetAt = time.Now().Add(skew)
		w.overrides[o.Task] = o
	})
}

func (w *world) end(task string) {
	w.set(func() { w.ends[task] = store.TaskEnd{Task: task, At: time.Now().Add(skew)} })
}

func (w *world) row(task string, threshold int) store.Alert {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[costAlert(task, threshold)]
}

func costAlert(task string, threshold int) store.AlertID {
	return store.AlertID{Task: task, Alert: "TaskCostCeiling", Threshold: threshold}
}

func (w *world) Snapshot() *tasks.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snapshot
}

func (w *world) Next(ctx context.Context, old *tasks.Snapshot) (*tasks.Snapshot, error) {
	for {
		w.mu.Lock()
		s, replaced := w.snapshot, w.replaced
		w.mu.Unlock()
		if s != old {
			return s, nil
		}
		select {
		case <-replaced:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (w *world) Lookup(_ context.Context, name string) (tasks.Task, bool, error) {
	if name == "dropped" {
		return worth("dropped", 9), true, nil
	}
	return tasks.Task{}, false, nil
}

func (w *world) AlertView(_ context.Context, after time.Time, while time.Duration) (store.AlertView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.viewFails != nil {
		return store.AlertView{}, w.viewFails
	}
	v := store.AlertView{At: time.Now().Add(skew)}
	if n := len(w.judges); n > 0 {
		v.Judge = w.judges[n-1]
	}
	for _, o := range w.overrides {
		if o.SetAt.After(after) {
			v.Overrides = append(v.Overrides, o)
		}
	}
	for _, e := range w.ends {
		if e.At.After(after) {
			v.Ends = append(v.Ends, e)
		}
	}
	for _, a := range w.rows {
		if a.State == store.Firing || a.EndsAt.After(v.At.Add(-while)) {
			v.Alerts = append(v.Alerts, a)
		}
	}
	return v, nil
}

func (w *world) JudgeBy(_ context.Context, hash string, started bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if started && w.viewFails == nil {
		w.judges = append(slices.DeleteFunc(w.judges, func(h string) bool { return h == hash }), hash)
	}
	return w.viewFails
}

func (w *world) ChangeAlerts(_ context.Context, changes []store.AlertChange, while time.Duration, _ bool) (done []store.Alert, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.largest = max(w.largest, len(changes))
	for _, c := range changes {
		if c.Task == w.unstorable && c.Task != "" {
			return nil, store.ErrUnstorable
		}
	}
	err = w.changes(func() {
		for _, c := range changes {
			if a, ok := w.change(c, while); ok {
				w.rows[c.AlertID] = a
				done = append(done, a)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// change is what the statements of the real store do.
func (w *world) change(c store.AlertChange, while time.Duration) (store.Alert, bool) {
	old, was := w.rows[c.AlertID]
	switch {
	case was && old.AsOf.After(c.AsOf):
	case c.State == store.Firing && (!was || old.State == store.Resolved &&
		(old.Episode == c.Seen || c.Seen == 0 && !old.EndsAt.After(time.Now().Add(skew-while)))):
		if _, frozen := w.labels[c.Task]; !frozen {
			w.labels[c.Task] = c.TaskLabels
		}
		a := c.Alert
		a.TaskLabels, a.Episode, a.StartsAt = w.labels[c.Task], old.Episode+1, time.Now().Add(skew)
		return a, true
	case c.State == store.Resolved && was && old.State == store.Firing && old.Episode == c.Seen:
		old.State, old.EndsAt, old.AsOf, old.Reason = store.Resolved, time.Now().Add(skew), c.AsOf, c.Reason
		return old, true
	}
	return store.Alert{}, false
}

// message is one alert as it was sent.
type message struct {
	at time.Duration // since the test began
	deliver.Alert
	lasts time.Duration // EndsAt, from at, by our clock
}

// replica is an evaluator that runs, with its own receivers.
type replica struct {
	*Evaluator
	world     *world
	reg       *prometheus.Registry
	log       *logged
	recovered chan struct{}

	mu   sync.Mutex
	sent []message
}

// start runs a replica until the test ends.
func (w *world) start(yaml string) *replica {
	r := &replica{world: w, reg: prometheus.NewRegistry(), log: &logged{}, recovered: make(chan struct{}, 1)}
	cfg := DefaultConfig()
	cfg.Judge = yaml
	r.Evaluator = New(cfg, ceilings(w.t, yaml), w, w, r, slog.New(slog.NewTextHandler(r.log, nil)), r.reg)
	done := make(chan struct{})
	ctx, stop := context.WithCancel(w.t.Context())
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(func() { stop(); <-done })
	return r
}

func (r *replica) Send(alerts ...deliver.Alert) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range alerts {
		r.sent = append(r.sent, message{at: time.Since(r.world.begin), Alert: a, lasts: time.Until(a.EndsAt)})
	}
}

func (r *replica) Recovered() <-chan struct{} { return r.recovered }

func (r *replica) Webhook() *deliver.Webhook { return nil }

// take returns what was sent since it was last called, by time and threshold.
func (r *replica) take() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.sent
	r.sent = nil
	slices.SortStableFunc(out, func(a, b message) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.Labels["threshold"], b.Labels["threshold"])
	})
	return out
}

// takeOf is take, of one threshold.
func (r *replica) takeOf(threshold string) []message {
	return slices.DeleteFunc(r.take(), func(m message) bool { return m.Labels["threshold"] != threshold })
}

// metric is the value of a metric, and of one that was never touched 0.
func (r *replica) metric(name string, labels map[string]string) float64 {
	families, err := r.reg.Gather()
	if err != nil {
		r.world.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			if maps.Equal(has, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func (r *replica) failures(of string) float64 {
	return r.metric("tatara_ledger_alerts_evaluation_failures_total", map[string]string{"store": of})
}

func (r *replica) transitions(state store.AlertState) float64 {
	return r.metric("tatara_ledger_alerts_transitions_total", map[string]string{"alertname": "TaskCostCeiling", "state": string(state)})
}

func (r *replica) firing() float64 {
	return r.metric("tatara_ledger_alerts_firing", map[string]string{"alertname": "TaskCostCeiling"})
}

func (r *replica) evaluated() time.Duration {
	at := r.metric("tatara_ledger_alerts_evaluated_timestamp_seconds", map[string]string{})
	return time.Unix(0, int64(at*1e9)).Sub(r.world.begin).Round(time.Millisecond)
}

// logged is a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines counts those with all of the words.
func (l *logged) lines(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// worth is a task that spent just now.
func worth(name string, cost float64) tasks.Task {
	return tasks.Task{
		Name: name, Project: "p", Repo: "r", Kind: "implement", FirstSpend: time.Now().Add(-time.Hour), LastSpend: time.Now().Add(time.Minute),
		Total: tasks.Amounts{Cost: dollars(cost), Tokens: 100}, Runs: 1,
	}
}
