package ceiling

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// ErrRefused is wrapped by every error about the content of a file of ceilings.
var ErrRefused = errors.New("file of ceilings refused")

const (
	// maxFile is thousands of overrides.
	maxFile = 1 << 20
	maxName = 200
	// maxThresholds: each is a series and a notification of its own.
	maxThresholds = 10
	maxPercent    = 1000
	// minQuiet and maxQuiet: a shorter quiet ends tasks between two calls, a
	// longer one than a month never ends them.
	minQuiet = time.Minute
	maxQuiet = 31 * 24 * time.Hour
	// lifted is what a limit is set to for there to be none.
	lifted = "none"
)

// reader walks the YAML nodes of one file. It reads scalars as text, because
// YAML's own numbers are floats, knows the line of everything it refuses, and
// goes on after a mistake to find all of them.
type reader struct {
	name string
	errs []error
	out  Config
}

func readFile(name string, r io.Reader) (*Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading ceilings from %s: %w", name, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w: %s: over %d bytes", ErrRefused, name, maxFile)
	}
	d := &reader{name: name, out: Config{Projects: map[string]Budget{}, limits: map[Selector]setting{}}}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF): // an empty file lays nothing over
		return &d.out, nil
	case err != nil:
		return nil, d.malformed(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		d.refuse(&more, "", "more than one YAML document", "keep one")
	case !errors.Is(err, io.EOF):
		return nil, d.malformed(err)
	}
	d.file(doc.Content[0])
	if len(d.errs) > 0 {
		return nil, errors.Join(d.errs...)
	}
	return &d.out, nil
}

// malformed turns the parser's "yaml: line 3: …" into our file:line.
func (d *reader) malformed(err error) error {
	if rest, ok := strings.CutPrefix(err.Error(), "yaml: line "); ok {
		return fmt.Errorf("%w: %s:%s", ErrRefused, d.name, rest)
	}
	return fmt.Errorf("%w: %s: %w", ErrRefused, d.name, err)
}

func (d *reader) source(n *yaml.Node) string { return d.name + ":" + strconv.Itoa(n.Line) }

func (d *reader) refuse(n *yaml.Node, field, problem, remedy string) {
	if field != "" {
		problem = field + " " + problem
	}
	d.errs = append(d.errs, fmt.Errorf("%w: %s: %s: %s", ErrRefused, d.source(n), problem, remedy))
}

// fields calls set for each key of a mapping; set reports false for a key that
// it does not know.
func (d *reader) fields(n *yaml.Node, what, known string, set func(key string, k, v *yaml.Node) bool) {
	if n.Kind != yaml.MappingNode {
		d.refuse(n, what, "is not a mapping", "give it keys: "+known)
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			d.refuse(k, "a key of "+what, "is not plain text", "the keys are "+known)
			continue
		}
		if first, ok := seen[k.Value]; ok {
			d.refuse(k, what, fmt.Sprintf("has the key %q twice, first at line %d", k.Value, first), "keep one")
			continue
		}
		seen[k.Value] = k.Line
		if !set(k.Value, k, v) {
			d.refuse(k, what, fmt.Sprintf("has an unknown key %q", k.Value), "the keys are "+known)
		}
	}
}

func (d *reader) file(n *yaml.Node) {
	d.fields(n, "the file", "thresholds, quiet, default, overrides, budgets", func(key string, k, v *yaml.Node) bool {
		switch key {
		case "thresholds":
			d.thresholds(v)
		case "quiet":
			d.quiet(v)
		case "default":
			d.defaults(k, v)
		case "overrides":
			d.overrides(v)
		case "budgets":
			d.budgets(v)
		default:
			return false
		}
		return true
	})
}

func (d *reader) thresholds(n *yaml.Node) {
	const remedy = "give one to 10 whole percents from 1 to 1000, strictly rising, such as [50, 80, 100]"
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > maxThresholds {
		d.refuse(n, "thresholds", "is not a list of one to 10", remedy)
		return
	}
	var last int
	for i, item := range n.Content {
		field := fmt.Sprintf("thresholds[%d]", i)
		s, ok := d.text(item, field, remedy)
		if !ok {
			continue
		}
		v, err := parseDecimal(s, 0, maxPercent)
		switch percent := int(v); {
		case err != nil:
			d.refuse(item, fmt.Sprintf("%s %q", field, s), err.Error(), remedy)
		case percent <= last:
			d.refuse(item, fmt.Sprintf("%s %q", field, s), fmt.Sprintf("is not over %d", last), remedy)
		default:
			last = percent
			d.out.Thresholds = append(d.out.Thresholds, percent)
		}
	}
}

func (d *reader) quiet(n *yaml.Node) {
	const remedy = "give a duration from 1m to 744h, such as 2h"
	s, ok := d.text(n, "quiet", remedy)
	if !ok {
		return
	}
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		d.refuse(n, fmt.Sprintf("quiet %q", s), "is not a duration", remedy)
	case v < minQuiet || v > maxQuiet:
		d.refuse(n, fmt.Sprintf("quiet %q", s), "is out of range", remedy)
	}
	d.out.Quiet = v
}

func (d *reader) defaults(k, n *yaml.Node) {
	set := setting{source: d.source(k)}
	d.fields(n, "default", "task, hour, session", func(key string, _, v *yaml.Node) bool {
		return d.scope(&set.ceiling, "default.", key, v)
	})
	d.out.limits[Selector{}] = set
}

func (d *reader) overrides(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		d.refuse(n, "overrides", "is not a list", "write - {kind: implement, task: {usd: 50}}")
		return
	}
	for i, item := range n.Content {
		d.override(item, fmt.Sprintf("overrides[%d]", i))
	}
}

func (d *reader) override(n *yaml.Node, what string) {
	var sel Selector
	set, limited, before := setting{source: d.source(n)}, false, len(d.errs)
	d.fields(n, what, "project, kind, model, task, hour, session", func(key string, _, v *yaml.Node) bool {
		switch key {
		case "project":
			sel.Project = d.label(v, what+".project")
		case "kind":
			sel.Kind = d.label(v, what+".kind")
		case "model":
			sel.Model = d.label(v, what+".model")
		default:
			limited = true
			return d.scope(&set.ceiling, what+".", key, v)
		}
		return true
	})
	if len(d.errs) > before {
		return // what it selects is not certain
	}
	switch first, taken := d.out.limits[sel]; {
	case sel == Selector{}:
		d.refuse(n, what, "selects everything", "name a project, kind or model, or put its limits under default")
	case !limited || set.ceiling == Ceiling{}:
		d.refuse(n, what, "sets no limit", "give it task, hour or session, or remove it")
	case taken:
		d.refuse(n, what, "selects what "+first.source+" selects", "put their limits into one")
	default:
		d.out.limits[sel] = set
	}
}

// scope reads the limits of task, hour or session. It reports false for another
// name.
func (d *reader) scope(c *Ceiling, prefix, scope string, n *yaml.Node) bool {
	keys, known := map[string]Dimension{}, ""
	for _, dim := range Dimensions() {
		if dim.Scope() == scope {
			keys[names[dim].key] = dim
			known += ", " + names[dim].key
		}
	}
	if len(keys) == 0 {
		return false
	}
	d.fields(n, prefix+scope, strings.TrimPrefix(known, ", "), func(key string, _, v *yaml.Node) bool {
		dim, ok := keys[key]
		if ok {
			c.limits[dim] = d.limit(v, prefix+dim.String(), dim)
		}
		return ok
	})
	return true
}

func (d *reader) limit(n *yaml.Node, field string, dim Dimension) Limit {
	l := Limit{Source: d.source(n)}
	if n.Kind == yaml.ScalarNode && n.Value == lifted {
		return l
	}
	if dim.Money() {
		l.Value = uint64(d.dollars(n, field, ", or none to lift the limit"))
		return l
	}
	const remedy = "give a positive whole number such as 200000 or 200_000, or none to lift the limit"
	if s, ok := d.text(n, field, remedy); ok {
		var err error
		if l.Value, err = parseDecimal(s, 0, MaxCount); err != nil {
			d.refuse(n, fmt.Sprintf("%s %q", field, s), err.Error(), remedy)
		}
	}
	return l
}

func (d *reader) dollars(n *yaml.Node, field, or string) usage.Nano {
	remedy := "give a positive amount of US dollars such as 25 or 0.5" + or
	s, ok := d.text(n, field, remedy)
	if !ok {
		return 0
	}
	v, err := parseDecimal(s, 9, maxDollars)
	if err != nil {
		d.refuse(n, fmt.Sprintf("%s %q", field, s), err.Error(), remedy)
	}
	return usage.Nano(v)
}

func (d *reader) budgets(n *yaml.Node) {
	d.fields(n, "budgets", "fleet, projects", func(key string, _, v *yaml.Node) bool {
		switch key {
		case "fleet":
			d.out.Fleet = d.budget(v, "budgets.fleet")
		case "projects":
			d.fields(v, "budgets.projects", "names of projects", func(project string, k, v *yaml.Node) bool {
				if d.label(k, "a key of budgets.projects") != "" {
					d.out.Projects[project] = d.budget(v, "budgets.projects."+project)
				}
				return true
			})
		default:
			return false
		}
		return true
	})
}

func (d *reader) budget(n *yaml.Node, what string) Budget {
	b, before := Budget{Source: d.source(n)}, len(d.errs)
	d.fields(n, what, "usd_per_month", func(key string, _, v *yaml.Node) bool {
		if key == "usd_per_month" {
			b.PerMonth = d.dollars(v, what+".usd_per_month", "")
			return true
		}
		return false
	})
	if b.PerMonth == 0 && len(d.errs) == before {
		d.refuse(n, what, "sets nothing", "give it usd_per_month, or remove it")
	}
	return b
}

// text refuses null too: an empty value is more likely forgotten than meant.
func (d *reader) text(n *yaml.Node, field, remedy string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		d.refuse(n, field, "is not a plain value", remedy)
		return "", false
	}
	return n.Value, true
}

// label is the value of a label that a selector names, "" if it is refused.
func (d *reader) label(n *yaml.Node, field string) string {
	const remedy = "give the label as the ledger has it, at most 200 bytes, or leave the key out for any"
	s, ok := d.text(n, field, remedy)
	if ok && (len(s) > maxName || strings.TrimSpace(s) != s || strings.ContainsFunc(s, unicode.IsControl)) {
		d.refuse(n, fmt.Sprintf("%s %q", field, s), "is no label", remedy)
		return ""
	}
	return s
}
