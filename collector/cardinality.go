package collector

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Other is what the values of a label beyond its bound are folded into.
const Other = "other"

// LabelBounds are how many values each label may have. Labels that name single
// things (task, run, session, issue) have none: the fine grain exists for them.
type LabelBounds struct {
	Project, Repo, Kind, Model, Effort, Agent int
}

// DefaultLabelBounds are far above what a fleet has, and low enough that a
// label that carries an id by mistake cannot fill every rollup row and panel.
func DefaultLabelBounds() LabelBounds {
	return LabelBounds{Project: 500, Repo: 5000, Kind: 200, Model: 500, Effort: 50, Agent: 1000}
}

// boundedLabel is a label that may be folded.
type boundedLabel struct {
	name  string
	bound int
	of    func(*usage.Labels) *string
}

func (b LabelBounds) labels() []boundedLabel {
	return []boundedLabel{
		{"project", b.Project, func(l *usage.Labels) *string { return &l.Project }},
		{"repo", b.Repo, func(l *usage.Labels) *string { return &l.Repo }},
		{"kind", b.Kind, func(l *usage.Labels) *string { return &l.Kind }},
		{"model", b.Model, func(l *usage.Labels) *string { return &l.Model }},
		{"effort", b.Effort, func(l *usage.Labels) *string { return &l.Effort }},
		{"agent", b.Agent, func(l *usage.Labels) *string { return &l.Agent }},
	}
}

// guard bounds the values of labels. Facts keep what was said; charges and
// activity are folded as they are written. One goroutine owns it.
type guard struct {
	ledger Ledger
	labels []boundedLabel
	known  map[string]map[string]bool // label → value
	loaded time.Time
	folded *prometheus.CounterVec
}

// reload is how old the known values may be before an unknown one is folded:
// another replica may have admitted it meanwhile.
const reload = 5 * time.Second

func newGuard(ledger Ledger, bounds LabelBounds, folded *prometheus.CounterVec) *guard {
	return &guard{ledger: ledger, labels: bounds.labels(), folded: folded}
}

// fold admits or folds the labels that visit hands out. Newly admitted values
// are stored first, so that no row has a value that another replica would fold.
func (g *guard) fold(ctx context.Context, visit func(use func(*usage.Labels))) error {
	if g.known == nil {
		if err := g.load(ctx); err != nil {
			return err
		}
	}
	admitted, over := g.admit(visit)
	if over && time.Since(g.loaded) > reload {
		if err := g.load(ctx); err != nil {
			return err
		}
		for _, v := range admitted {
			g.known[v.Label][v.Value] = true
		}
	}
	if err := g.ledger.AddLabelValues(ctx, admitted); err != nil {
		g.known = nil // what was admitted in memory only is forgotten
		return err
	}
	if over {
		visit(func(l *usage.Labels) {
			for _, name := range foldLabels(g.labels, g.known, l) {
				g.folded.WithLabelValues(name).Inc()
			}
		})
	}
	return nil
}

// admit makes values known as far as the bounds allow.
func (g *guard) admit(visit func(use func(*usage.Labels))) (admitted []clickhouse.LabelValue, over bool) {
	visit(func(l *usage.Labels) {
		for _, b := range g.labels {
			v := *b.of(l)
			switch known := g.known[b.name]; {
			case v == "" || known[v]:
			case len(known) <= b.bound: // one of the known is Other
				known[v] = true
				admitted = append(admitted, clickhouse.LabelValue{Label: b.name, Value: v})
			default:
				over = true
			}
		}
	})
	return admitted, over
}

func (g *guard) load(ctx context.Context) error {
	known, err := knownLabels(ctx, g.ledger, g.labels)
	if err != nil {
		return err
	}
	g.known, g.loaded = known, time.Now()
	return nil
}

func knownLabels(ctx context.Context, ledger Ledger, labels []boundedLabel) (map[string]map[string]bool, error) {
	values, err := ledger.LabelValues(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]map[string]bool{}
	for _, b := range labels {
		known[b.name] = map[string]bool{Other: true}
	}
	for _, v := range values {
		if known[v.Label] != nil {
			known[v.Label][v.Value] = true
		}
	}
	return known, nil
}

// foldLabels folds what is not known and returns the names of the labels that
// it folded.
func foldLabels(labels []boundedLabel, known map[string]map[string]bool, l *usage.Labels) (folded []string) {
	for _, b := range labels {
		if v := b.of(l); *v != "" && !known[b.name][*v] {
			*v = Other
			folded = append(folded, b.name)
		}
	}
	return folded
}

// visitCharges hands out the labels of charges.
func visitCharges(charges []usage.Charge) func(use func(*usage.Labels)) {
	return func(use func(*usage.Labels)) {
		for i := range charges {
			use(&charges[i].Labels)
		}
	}
}

// visitRun hands out the labels of all that is derived of runs.
func visitRun(r *derive.Run, summaries []usage.RunSummary) func(use func(*usage.Labels)) {
	return func(use func(*usage.Labels)) {
		visitCharges(r.Charges)(use)
		for i := range r.Activity {
			use(&r.Activity[i].Labels)
		}
		for i := range summaries {
			use(&summaries[i].Labels)
		}
	}
}
