package receive

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// The families that are kept. Everything else a wrapper pushes says nothing
// about spend.
const (
	familyTokens    = "ccw_turn_tokens_total"
	familyCost      = "ccw_turn_cost_usd_total"
	familyTurns     = "ccw_turns_total"
	familyTools     = "ccw_tool_calls_total"
	familyDurations = "ccw_turn_duration_seconds"
	familyPushes    = "ccw_metric_push_total"
)

// exposition reads a snapshot in Prometheus' text format.
func (r *Receiver) exposition(body []byte) (pushes uint64, c usage.Counters, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return 0, c, refuse("unparsable", "body", err.Error(), "send Prometheus text format, version 0.0.4; the whole push is refused")
	}
	for name, f := range families {
		switch name {
		case familyTokens:
			c.Tokens, err = r.tokens(f)
		case familyCost:
			c.Costs, err = r.costs(f)
		case familyTurns:
			err = r.counts(f, func(l map[string]string, n uint64) {
				c.Turns = append(c.Turns, usage.TurnCounter{Result: l["result"], Count: n})
			})
		case familyTools:
			err = r.counts(f, func(l map[string]string, n uint64) {
				c.Tools = append(c.Tools, usage.ToolCounter{Tool: l["tool"], Outcome: l["outcome"], Count: n})
			})
		case familyDurations:
			c.Durations, err = durations(f)
		case familyPushes:
			err = r.counts(f, func(_ map[string]string, n uint64) { pushes += n })
		default:
			r.ignore(name, f)
		}
		if err != nil {
			return 0, c, err
		}
	}
	return pushes, c, nil
}

// ignore counts series that look like spend and are not kept, so that a
// renamed family shows at once and not after weeks.
func (r *Receiver) ignore(name string, f *dto.MetricFamily) {
	if strings.HasPrefix(name, "ccw_turn_") && name != "ccw_turn_in_flight" && !strings.HasPrefix(name, "ccw_turn_stall_") {
		r.metrics.ignored.WithLabelValues("unknown_family").Add(float64(len(f.GetMetric())))
	}
}

func (r *Receiver) tokens(f *dto.MetricFamily) ([]usage.TokenCounter, error) {
	at := map[usage.SampleLabels]int{}
	seen := map[usage.SampleLabels]map[string]bool{}
	var out []usage.TokenCounter
	for _, m := range f.GetMetric() {
		labels, all, err := r.sampleLabels(f.GetName(), m)
		if err != nil {
			return nil, err
		}
		n, err := count(f, m, all)
		if err != nil {
			return nil, err
		}
		if seen[labels] == nil {
			seen[labels] = map[string]bool{}
			at[labels] = len(out)
			out = append(out, usage.TokenCounter{Labels: labels})
		}
		class := all["type"]
		if seen[labels][class] {
			return nil, duplicate(f, all)
		}
		seen[labels][class] = true
		t := &out[at[labels]]
		switch class {
		case "input":
			t.Input = n
		case "output":
			t.Output = n
		case "cache_read":
			t.CacheRead = n
		case "cache_creation":
			t.CacheWrite = n
		default:
			// A newer wrapper may know a class that we do not: the others
			// still count.
			r.metrics.ignored.WithLabelValues("unknown_token_type").Inc()
		}
	}
	return out, nil
}

func (r *Receiver) costs(f *dto.MetricFamily) ([]usage.CostCounter, error) {
	seen := map[usage.SampleLabels]bool{}
	var out []usage.CostCounter
	for _, m := range f.GetMetric() {
		labels, all, err := r.sampleLabels(f.GetName(), m)
		if err != nil {
			return nil, err
		}
		if seen[labels] {
			return nil, duplicate(f, all)
		}
		seen[labels] = true
		v, _ := value(m)
		cost, err := usage.ParseDollars(strconv.FormatFloat(v, 'g', -1, 64))
		if err != nil {
			return nil, refuse("bad_value", series(f.GetName(), all), err.Error(), "a cost is a number of dollars from 0 up")
		}
		out = append(out, usage.CostCounter{Labels: labels, Cost: cost})
	}
	return out, nil
}

func (r *Receiver) counts(f *dto.MetricFamily, add func(map[string]string, uint64)) error {
	seen := map[string]bool{}
	for _, m := range f.GetMetric() {
		all, err := r.labels(f.GetName(), m)
		if err != nil {
			return err
		}
		n, err := count(f, m, all)
		if err != nil {
			return err
		}
		if key := series(f.GetName(), all); seen[key] {
			return duplicate(f, all)
		} else {
			seen[key] = true
		}
		add(all, n)
	}
	return nil
}

// durations reads the one histogram, which has no labels.
func durations(f *dto.MetricFamily) (usage.DurationCounter, error) {
	var d usage.DurationCounter
	if len(f.GetMetric()) != 1 || f.GetMetric()[0].GetHistogram() == nil {
		return d, refuse("bad_histogram", f.GetName(), "is not one histogram without labels", "send it as the wrapper does")
	}
	h := f.GetMetric()[0].GetHistogram()
	d.Count, d.Sum = h.GetSampleCount(), h.GetSampleSum()
	if math.IsNaN(d.Sum) || math.IsInf(d.Sum, 0) || d.Sum < 0 || d.Count > usage.MaxTokens {
		return d, refuse("bad_value", f.GetName()+"_sum", "is not a number of seconds", "send it as the wrapper does")
	}
	last := math.Inf(-1)
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue
		}
		if !(b.GetUpperBound() > last) || b.GetCumulativeCount() > d.Count {
			return d, refuse("bad_histogram", f.GetName()+"_bucket", "has bounds or counts out of order", "send it as the wrapper does")
		}
		last = b.GetUpperBound()
		d.Bounds = append(d.Bounds, b.GetUpperBound())
		d.Buckets = append(d.Buckets, b.GetCumulativeCount())
	}
	return d, nil
}

func (r *Receiver) sampleLabels(family string, m *dto.Metric) (usage.SampleLabels, map[string]string, error) {
	all, err := r.labels(family, m)
	return usage.SampleLabels{Project: all["project"], Repo: all["repo"], Kind: all["kind"], Model: all["model"]}, all, err
}

func (r *Receiver) labels(family string, m *dto.Metric) (map[string]string, error) {
	out := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		if err := r.label(family+"{"+l.GetName()+"}", l.GetValue()); err != nil {
			return nil, err
		}
		out[l.GetName()] = l.GetValue()
	}
	return out, nil
}

// value is the number of a series, whatever its declared type: a body without
// TYPE lines is untyped.
func value(m *dto.Metric) (float64, bool) {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue(), true
	case m.Gauge != nil:
		return m.GetGauge().GetValue(), true
	case m.Untyped != nil:
		return m.GetUntyped().GetValue(), true
	}
	return math.NaN(), false
}

func count(f *dto.MetricFamily, m *dto.Metric, labels map[string]string) (uint64, error) {
	v, ok := value(m)
	if !ok || math.IsNaN(v) || v < 0 || v != math.Trunc(v) || v > usage.MaxTokens {
		return 0, refuse("bad_value", series(f.GetName(), labels), "value "+strconv.FormatFloat(v, 'g', -1, 64)+" is no count",
			"counts are whole numbers from 0 to 10^12")
	}
	return uint64(v), nil
}

func duplicate(f *dto.MetricFamily, labels map[string]string) error {
	return refuse("duplicate_series", series(f.GetName(), labels), "appears twice in one push", "send each series once")
}

// series is the text of a series, for errors.
func series(family string, labels map[string]string) string {
	set := model.LabelSet{}
	for k, v := range labels {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	return family + set.String()
}
