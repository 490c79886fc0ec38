package simulate

import (
	"bytes"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// The results that a wrapper counts its pushes by.
const (
	pushOK        = "ok"
	pushRejected  = "rejected"
	pushTransport = "transport_fail"
)

// process has the counters of one wrapper process. Names, help and buckets are
// the wrapper's; testdata/wrapper-push holds what it really pushes.
type process struct {
	identity      *pod
	registry      *prometheus.Registry
	pushes, tools *prometheus.CounterVec
	tokens, turns *prometheus.CounterVec
	durations     prometheus.Histogram
	inFlight      prometheus.Gauge
	finished      int // turns counted so far
	encoded       bytes.Buffer
}

func newProcess(identity *pod) *process {
	p := &process{identity: identity, registry: prometheus.NewRegistry()}
	p.pushes = p.vec("ccw_metric_push_total", "Metric push attempts by result.", "result")
	p.tools = p.vec("ccw_tool_calls_total",
		"Agent tool calls observed in the transcript by tool name (clamped) and outcome (success|error).", "tool", "outcome")
	p.tokens = p.vec("ccw_turn_tokens_total",
		"Claude tokens consumed per turn, summed across the turn, by token type, model, Task kind, repo, and project.",
		"type", "model", "kind", "repo", "project")
	p.turns = p.vec("ccw_turns_total", "Turns by terminal result.", "result")
	p.durations = p.histogram("ccw_turn_duration_seconds", "Turn wall-clock duration.", 1, 12)
	p.inFlight = p.gauge("ccw_turn_in_flight", "Turns currently in flight (0 or 1).")
	p.registerConstant()
	return p
}

// registerConstant adds the families that never move here, so that a receiver
// sees what it has to ignore.
func (p *process) registerConstant() {
	for name, help := range map[string]string{
		"ccw_agents_installed_total":              "Typed subagent .md files installed at boot.",
		"ccw_claude_restarts_total":               "claude process restarts.",
		"ccw_commit_oversized_blob_skipped_total": "Oversized files the turn finaliser refused to stage, keeping build artifacts out of the task branch.",
		"ccw_hook_received_total":                 "Stop-hook callbacks received.",
		"ccw_http_panics_total":                   "HTTP handler panics recovered.",
		"ccw_turn_stall_suspected_total": "Windows of a full TurnTimeout with no transcript activity on an in-flight turn. " +
			"The wrapper no longer fails such turns; the operator decides.",
		"tatara_wrapper_internal_issue_drain_timeout_total": "Times DrainInternalIssues timed out waiting for the transcript tailer " +
			"to catch up before draining anyway (degraded path, trailing report may be dropped).",
	} {
		p.registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	p.gauge("ccw_http_in_flight", "HTTP requests currently in flight.")
	p.histogram("ccw_bootstrap_duration_seconds", "Full Render() bootstrap wall-clock duration.", 0.5, 8)
	p.histogram("ccw_probe_answer_seconds", "Latency from writing a liveness probe to the agent answering it.", 0.5, 12)
}

func (p *process) vec(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	p.registry.MustRegister(v)
	return v
}

func (p *process) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	p.registry.MustRegister(g)
	return g
}

func (p *process) histogram(name, help string, first float64, buckets int) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, 2, buckets),
	})
	p.registry.MustRegister(h)
	return h
}

// advance brings the counters to a moment that is not before the last one.
func (p *process) advance(turns []turn, m moment) {
	for ; p.finished < m.turns; p.finished++ {
		p.finish(&turns[p.finished])
	}
	p.inFlight.Set(0)
	if m.inFlight {
		p.inFlight.Set(1)
	}
}

// finish counts a turn. Its tokens, as those of a real wrapper, appear all at
// once when it ends.
func (p *process) finish(t *turn) {
	p.turns.WithLabelValues(t.result).Inc()
	p.durations.Observe(t.seconds)
	for _, s := range t.tokens {
		for class, n := range map[string]uint64{
			"input": s.input, "output": s.output, "cache_read": s.cacheRead, "cache_creation": s.cacheCreate,
		} {
			p.tokens.WithLabelValues(class, s.model, p.identity.kind, p.identity.repo, p.identity.project).Add(float64(n))
		}
	}
	for _, c := range t.tools {
		p.tools.WithLabelValues(c.tool.Name, c.tool.Outcome).Add(float64(c.n))
	}
}

// pushed counts an attempt, whatever became of it.
func (p *process) pushed(result string) { p.pushes.WithLabelValues(result).Inc() }

// snapshot is the exposition of all counters. The caller owns it.
func (p *process) snapshot() ([]byte, error) {
	families, err := p.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering the counters: %w", err)
	}
	p.encoded.Reset()
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&p.encoded, f); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", f.GetName(), err)
		}
	}
	return bytes.Clone(p.encoded.Bytes()), nil
}
