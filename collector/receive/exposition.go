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
		return 0, c, refuse("unparsable", "body", excerpt(err.Error()), "send Prometheus text format, version 0.0.4; the whole push is refused")
	}
	for name, f := range families {
		switch name {
		case familyTokens:
			c.Tokens, err = r.tokens(f)
		case familyCost:
			c.Costs, err = r.costs(f)
		case familyTurns:
			c.Turns, err = r.turns(f)
		case familyTools:
			c.Tools, err = r.tools(f)
		case familyDurations:
			c.Durations, err = durations(f)
		case familyPushes:
			err = r.counts(f, func(_ map[string]string, n uint64) error { return sum(f, &pushes, n) })
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

// tokens and costs add up series that differ only in labels which the ledger
// does not keep: a newer wrapper may have more of them.
func (r *Receiver) tokens(f *dto.MetricFamily) ([]usage.TokenCounter, error) {
	at := map[usage.SampleLabels]int{}
	var out []usage.TokenCounter
	err := r.counts(f, func(l map[string]string, n uint64) error {
		labels := sampleLabels(l)
		i, seen := at[labels]
		if !seen {
			i = len(out)
			at[labels] = i
			out = append(out, usage.TokenCounter{Labels: labels})
		}
		t := &out[i]
		switch l["type"] {
		case "input":
			return sum(f, &t.Input, n)
		case "output":
			return sum(f, &t.Output, n)
		case "cache_read":
			return sum(f, &t.CacheRead, n)
		case "cache_creation":
			return sum(f, &t.CacheWrite, n)
		}
		// A newer wrapper may know a class that we do not: the others still
		// count.
		r.metrics.ignored.WithLabelValues("unknown_token_type").Inc()
		return nil
	})
	return out, err
}

// sum adds a count that may be one of several.
func sum(f *dto.MetricFamily, to *uint64, n uint64) error {
	if *to += n; *to > usage.MaxTokens {
		return refuse("bad_value", f.GetName(), "adds up to more than 10^11", "counts are whole numbers from 0 to 10^11")
	}
	return nil
}

func (r *Receiver) costs(f *dto.MetricFamily) ([]usage.CostCounter, error) {
	at := map[usage.SampleLabels]int{}
	var out []usage.CostCounter
	err := r.each(f, func(m *dto.Metric, l map[string]string) error {
		v, _ := value(m)
		cost, err := usage.ParseDollars(strconv.FormatFloat(v, 'g', -1, 64))
		if err != nil {
			return refuse("bad_value", excerpt(series(f.GetName(), l)), err.Error(), "a cost is a number of dollars from 0 up")
		}
		labels := sampleLabels(l)
		if i, seen := at[labels]; seen {
			if out[i].Cost += cost; out[i].Cost > usage.MaxAmount {
				return refuse("bad_value", f.GetName(), "adds up to more than "+usage.MaxAmount.String()+" dollars", "")
			}
			return nil
		}
		at[labels] = len(out)
		out = append(out, usage.CostCounter{Labels: labels, Cost: cost})
		return nil
	})
	return out, err
}

func (r *Receiver) turns(f *dto.MetricFamily) (out []usage.TurnCounter, err error) {
	at := map[string]int{}
	err = r.counts(f, func(l map[string]string, n uint64) error {
		i, seen := at[l["result"]]
		if !seen {
			i = len(out)
			at[l["result"]] = i
			out = append(out, usage.TurnCounter{Result: l["result"]})
		}
		return sum(f, &out[i].Count, n)
	})
	return out, err
}

func (r *Receiver) tools(f *dto.MetricFamily) (out []usage.ToolCounter, err error) {
	at := map[[2]string]int{}
	err = r.counts(f, func(l map[string]string, n uint64) error {
		key := [2]string{l["tool"], l["outcome"]}
		i, seen := at[key]
		if !seen {
			i = len(out)
			at[key] = i
			out = append(out, usage.ToolCounter{Tool: key[0], Outcome: key[1]})
		}
		return sum(f, &out[i].Count, n)
	})
	return out, err
}

// each hands the series of a family to use and refuses one that comes twice.
func (r *Receiver) each(f *dto.MetricFamily, use func(*dto.Metric, map[string]string) error) error {
	seen := make(map[string]bool, len(f.GetMetric()))
	for _, m := range f.GetMetric() {
		labels, err := r.labels(f.GetName(), m)
		if err != nil {
			return err
		}
		key := series(f.GetName(), labels)
		if seen[key] {
			return refuse("duplicate_series", excerpt(key), "appears twice in one push", "send each series once")
		}
		seen[key] = true
		if err := use(m, labels); err != nil {
			return err
		}
	}
	return nil
}

func (r *Receiver) counts(f *dto.MetricFamily, add func(map[string]string, uint64) error) error {
	return r.each(f, func(m *dto.Metric, labels map[string]string) error {
		n, err := count(f, m, labels)
		if err != nil {
			return err
		}
		return add(labels, n)
	})
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
	last, below := math.Inf(-1), uint64(0)
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue
		}
		if !(b.GetUpperBound() > last) || b.GetCumulativeCount() < below || b.GetCumulativeCount() > d.Count {
			return d, refuse("bad_histogram", f.GetName()+"_bucket", "has bounds or counts out of order", "send it as the wrapper does")
		}
		last, below = b.GetUpperBound(), b.GetCumulativeCount()
		d.Bounds = append(d.Bounds, b.GetUpperBound())
		d.Buckets = append(d.Buckets, b.GetCumulativeCount())
	}
	return d, nil
}

func sampleLabels(all map[string]string) usage.SampleLabels {
	return usage.SampleLabels{Project: all["project"], Repo: all["repo"], Kind: all["kind"], Model: all["model"]}
}

func (r *Receiver) labels(family string, m *dto.Metric) (map[string]string, error) {
	out := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		if err := r.label(excerpt(family+"{"+l.GetName()+"}"), l.GetValue()); err != nil {
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
		return 0, refuse("bad_value", excerpt(series(f.GetName(), labels)), "value "+strconv.FormatFloat(v, 'g', -1, 64)+" is no count",
			"counts are whole numbers from 0 to 10^11")
	}
	return uint64(v), nil
}

// series is the text of a series, for errors.
func series(family string, labels map[string]string) string {
	if len(labels) == 0 {
		return family
	}
	set := model.LabelSet{}
	for k, v := range labels {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	return family + set.String()
}
