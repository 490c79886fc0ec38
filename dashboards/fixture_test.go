package dashboards

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector"
	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/simulate"
	"github.com/szymonrychu/tatara-ledger/store"
)

// queue is a journal in memory: what was recorded comes out as one batch.
type queue struct {
	codec *collector.Codec
	mu    sync.Mutex
	raw   [][]byte
	done  chan struct{}
}

func (q *queue) Record(_ context.Context, f *usage.Facts) error {
	raw, err := q.codec.Encode(f)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.raw = append(q.raw, raw)
	return err
}

func (q *queue) Next(ctx context.Context) (journal.Batch, error) {
	q.mu.Lock()
	raw := q.raw
	q.raw = nil
	q.mu.Unlock()
	if raw == nil {
		<-ctx.Done()
		return journal.Batch{}, ctx.Err()
	}
	return journal.Batch{Records: raw, First: 1, Last: journal.Position(len(raw)), Oldest: time.Now()}, nil
}

func (q *queue) Commit(journal.Position) error { close(q.done); return nil }

// fleet fills a ledger with everything that dashboards show, on the way that it
// takes in the service as far as the stores: pushes of a simulated fleet, calls of
// main and subagents, links, handoffs, chat, alerts, outcomes, remarks, health.
// name makes labels stranger than they would be. The choice has the range of it.
func fleet(t *testing.T, l *ledger, name func(string) string) Choice {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond)
	// Within a bucket, so that what is in the first one lies after its start.
	start := now.Add(-90 * time.Minute).Truncate(5 * time.Minute).Add(2 * time.Minute)
	codec, err := collector.NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{codec: codec, done: make(chan struct{})}
	push(t, q, name)
	facts := calls(start, name)
	if err := q.Record(t.Context(), facts); err != nil {
		t.Fatal(err)
	}
	write(t, l, q, codec)
	chat(t, l, facts, start, name)
	record(t, l, facts, start, name)
	return Choice{
		From: start, To: now.Add(time.Minute), Interval: 5 * time.Minute,
		// As a link sets it; by itself it would be that with the most spend.
		Values: map[string][]string{"task": {name("task-0")}},
	}
}

// push sends a simulated fleet's pushes through the receiver.
func push(t *testing.T, q *queue, name func(string) string) {
	t.Helper()
	r := receive.New(receive.DefaultConfig(), q, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	server := httptest.NewServer(http.HandlerFunc(r.Push))
	defer server.Close()
	cfg := simulate.DefaultConfig()
	cfg.PushURLs, cfg.Interval, cfg.Pods = []string{server.URL}, 0, 12
	for _, list := range []*[]string{&cfg.Kinds, &cfg.Repos, &cfg.Projects} {
		for i, v := range *list {
			if v != "" {
				(*list)[i] = name(v)
			}
		}
	}
	cfg.Models = append(cfg.Models, name("house-llm"))
	f, err := simulate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, report, err := f.Run(t.Context()); err != nil || report.Unacknowledged > 0 {
		t.Fatalf("pushing: %v: %+v", err, report)
	}
}

// calls are those of eight runs of four tasks of two issues, half of each in the
// period before.
func calls(start time.Time, name func(string) string) *usage.Facts {
	f := &usage.Facts{}
	for run := range 8 {
		id, task := name(fmt.Sprint("run-", run)), name(fmt.Sprint("task-", run/2))
		issue := name(fmt.Sprint("acme/widgets#", run/4))
		first := start.Add(time.Duration(run) * 10 * time.Minute)
		f.Links = append(f.Links, usage.Link{Run: id, Pod: id, Task: task, Issue: issue, HandoffKey: "demo/" + task, Arrived: first})
		for call := range 6 {
			e := usage.Event{
				Feed: usage.FeedCall, SourceID: fmt.Sprint(id, call), Time: first.Add(time.Duration(call) * time.Minute), Arrived: first,
				Labels: usage.Labels{
					Project: name("demo"), Repo: name("widgets"), Kind: name("implement"), Task: task, Issue: issue, Run: id,
					Session: id, Model: "claude-opus-4-8", Effort: "high",
				},
				Tokens:   usage.Tokens{Input: 900, Output: 400, CacheRead: 20_000, CacheWrite: 3000, CacheWrite5m: 2000, CacheWrite1h: 1000},
				Reported: usage.Some(40_000_000), Duration: 3 * time.Second,
			}
			if call%3 == 2 {
				e.Labels.Agent, e.Labels.Model, e.Labels.Effort = name("explorer"), "claude-sonnet-5", "low"
			}
			if run%2 == 1 { // as much, earlier
				e.Time = e.Time.Add(-3 * time.Hour)
			}
			e.Content = usage.Hash("content", e.SourceID)
			e.ID = usage.Hash("call", e.SourceID)
			f.Events = append(f.Events, e)
		}
	}
	for i, link := range f.Links {
		at := start.Add(time.Duration(i) * 5 * time.Minute)
		o := usage.Outcome{Time: at, Arrived: at, Task: link.Task, Outcome: usage.CIPassed, Detail: name("green")}
		o.Identify("")
		f.Outcomes = append(f.Outcomes, o)
	}
	a := usage.Annotation{
		Time: start.Add(time.Hour), Arrived: start, Project: name("demo"), Text: name("everything on a smaller model"), Tags: []string{name("tier"), "release"},
	}
	a.Identify("")
	f.Annotations = append(f.Annotations, a)
	// The same task's counters: turns and tools, which calls do not know.
	c := usage.Counters{
		Tokens: []usage.TokenCounter{{Labels: usage.SampleLabels{Project: name("demo"), Repo: name("widgets"), Kind: name("implement"), Model: "claude-opus-4-8"}, Input: 1}},
		Turns:  []usage.TurnCounter{{Result: "complete", Count: 3}, {Result: "failed", Count: 1}},
		Tools:  []usage.ToolCounter{{Tool: name("Bash"), Outcome: "success", Count: 9}, {Tool: name("Bash"), Outcome: "error", Count: 2}},
	}
	for run := range 8 {
		id := name(fmt.Sprint("run-", run))
		if s, err := usage.NewSample(id, id, start.Add(30*time.Minute), 1, c); err == nil {
			f.Samples = append(f.Samples, s)
		}
	}
	return f
}

func write(t *testing.T, l *ledger, q *queue, codec *collector.Codec) {
	t.Helper()
	book, err := pricing.LoadFile("")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	w := collector.NewWriter(collector.DefaultConfig(), q, codec, l.Store, derive.New(book, nil), collector.NewAside(t.TempDir()), log, prometheus.NewRegistry())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		select {
		case <-q.done:
		case <-ctx.Done():
		}
		cancel()
	}()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-q.done:
	default:
		t.Fatal("the facts were not written within a minute")
	}
}

// chat is of handoffs that the second run of each task goes on from, and a room.
func chat(t *testing.T, l *ledger, f *usage.Facts, start time.Time, name func(string) string) {
	t.Helper()
	var events []store.Event
	event := func(e store.Event) { e.ID = uuid.New(); events = append(events, e) }
	room := uuid.NullUUID{UUID: uuid.New(), Valid: true}
	event(store.Event{At: start, Action: store.RoomCreated, Actor: name("ann"), RoomID: room})
	for i, link := range f.Links {
		e := store.Event{
			At: start.Add(time.Duration(i) * time.Minute), Action: store.HandoffWritten, Actor: name("agent"), RequestID: link.Run,
			Project: name("demo"), Repo: name("widgets"), Kind: name("implement"), Key: link.HandoffKey, Revision: int64(i%2) + 1, Bytes: 900,
		}
		if i%2 == 1 {
			read := e
			read.Action, read.Revision, read.Bytes, read.Age = store.HandoffRead, 1, 0, time.Minute
			event(read)
		}
		event(e)
		in := store.Event{At: e.At, Actor: name("agent"), RequestID: link.Run, RoomID: room, ParticipantID: uuid.NullUUID{UUID: uuid.New(), Valid: true}}
		in.Action = store.ParticipantJoined
		event(in)
		in.Action, in.MessageID, in.Bytes, in.Kind = store.MessageSent, int64(i+1), 40, "message"
		event(in)
	}
	old := store.Event{At: start.Add(-40 * 24 * time.Hour), Action: store.HandoffWritten, Actor: name("agent"), Key: name("forgotten"), Project: name("demo"), Repo: name("widgets"), Kind: name("implement"), Revision: 1, Bytes: 4000}
	event(old)
	if err := l.AppendChatEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// record is what else the service records: alerts and its health.
func record(t *testing.T, l *ledger, f *usage.Facts, start time.Time, name func(string) string) {
	t.Helper()
	var alerts []store.AlertEvent
	var health [][]any
	for i, link := range f.Links {
		at := start.Add(time.Duration(i) * 5 * time.Minute)
		alerts = append(alerts, store.AlertEvent{ID: uuid.New(), At: at, Alert: store.Alert{
			AlertID: store.AlertID{Task: link.Task, Alert: "TaskCostCeiling", Threshold: 50}, State: store.Firing, Episode: 1,
			TaskLabels: store.TaskLabels{Project: name("demo"), Repo: name("widgets"), Kind: name("implement")},
			Value:      1_000_000_000, Limit: 2_000_000_000, Summary: name("half of its ceiling"), StartsAt: at,
		}})
	}
	if err := l.AppendAlertEvents(t.Context(), alerts); err != nil {
		t.Fatal(err)
	}
	increase := 3.0
	for i := range 40 {
		at := start.Add(time.Duration(i) * time.Minute)
		for series, labels := range healthSeries(name) {
			health = append(health, []any{at, name("replica-0"), series, labels, float64(100 + i), &increase})
		}
	}
	l.insert(t, "health_samples (time, instance, name, labels, value, increase)", health...)
}

// healthSeries are the series that panels name, with the labels that they have.
func healthSeries(name func(string) string) map[string]map[string]string {
	return map[string]map[string]string{
		"tatara_ledger_receive_facts_total":                 {"feed": "push"},
		"tatara_ledger_receive_rejected_total":              {"feed": "call", "reason": name("no time")},
		"tatara_ledger_receive_ignored_series_total":        {"reason": "unknown family"},
		"tatara_ledger_writer_set_aside_records_total":      {"reason": "undecodable"},
		"tatara_ledger_writer_folded_labels_total":          {"label": "kind"},
		"tatara_ledger_writer_conflicts_total":              {},
		"tatara_ledger_journal_bytes":                       {},
		"tatara_ledger_journal_capacity_bytes":              {},
		"tatara_ledger_writer_lag_seconds_sum":              {},
		"tatara_ledger_writer_lag_seconds_count":            {},
		"tatara_ledger_writer_attempts_total":               {"result": "ok"},
		"tatara_ledger_closer_dirty_buckets":                {},
		"tatara_ledger_writer_stage_duration_seconds_sum":   {"stage": "facts"},
		"tatara_ledger_writer_stage_duration_seconds_count": {"stage": "facts"},
		"tatara_ledger_api_request_duration_seconds_sum":    {"route": "GET /v1/spend"},
		"tatara_ledger_api_request_duration_seconds_count":  {"route": "GET /v1/spend"},
		"tatara_ledger_postgres_retries_total":              {},
		"tatara_ledger_postgres_unavailable_total":          {},
		"tatara_ledger_outbox_lag_seconds":                  {"outbox": "clickhouse"},
		"tatara_ledger_alerts_delivered_total":              {"receiver": "alertmanager"},
		"tatara_ledger_alerts_delivery_failures_total":      {"receiver": "alertmanager"},
		"tatara_ledger_alerts_dropped_total":                {"reason": "full"},
		"tatara_ledger_ready":                               {"check": "postgres"},
		"tatara_ledger_ready_duration_seconds":              {"check": "clickhouse"},
		"chat_polls_total":                                  {},
	}
}
