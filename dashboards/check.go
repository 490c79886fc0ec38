package dashboards

import (
	"context"
	"slices"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Ledger runs queries: a [clickhouse.Reader].
type Ledger interface {
	Select(ctx context.Context, sql string, maxRows int) (*clickhouse.Selection, error)
}

// Result is what came of one query of a dashboard.
type Result struct {
	Dashboard string `json:"dashboard"`
	// What is "panel", "variable" or "annotations", and Name its title or name.
	What    string        `json:"what"`
	Name    string        `json:"name"`
	Rows    int           `json:"rows"`
	Took    time.Duration `json:"-"`
	Seconds float64       `json:"seconds"`
	// Error is empty where the query ran.
	Error string `json:"error,omitempty"`
	// Answer has the rows.
	Answer *clickhouse.Selection `json:"-"`
}

// maxRows bounds one answer: more would be too much for a browser too.
const maxRows = 100_000

// Check runs every query of a dashboard as Grafana would with these choices. A
// variable with one value and without a choice takes the first that its query or
// list gives, as Grafana does. An error is only that of ctx: what a query says is
// in its result.
func Check(ctx context.Context, l Ledger, d *Dashboard, c Choice) ([]Result, error) {
	var out []Result
	run := func(what, name string, q Query) (*Result, error) {
		r := Result{Dashboard: d.UID, What: what, Name: name}
		start := time.Now()
		sql, err := q.Expand(c)
		if err == nil {
			if r.Answer, err = l.Select(ctx, sql, maxRows); err == nil {
				r.Rows = len(r.Answer.Rows)
			}
		}
		r.Took = time.Since(start)
		r.Seconds = r.Took.Seconds()
		if err != nil {
			r.Error = err.Error()
		}
		out = append(out, r)
		return &out[len(out)-1], ctx.Err()
	}
	values := map[string][]string{}
	for name, v := range c.Values {
		values[name] = slices.Clone(v)
	}
	c.Values = values
	for _, v := range d.Variables {
		first := v.Text
		if len(v.Custom) > 0 {
			first = v.Custom[0]
		}
		if v.Query.SQL != "" {
			r, err := run("variable", v.Name, v.Query)
			if err != nil {
				return out, err
			}
			if r.Rows > 0 {
				first, _ = r.Answer.Rows[0][0].(string)
			}
		}
		if !v.Multi && len(values[v.Name]) == 0 {
			values[v.Name] = []string{first}
		}
	}
	if _, err := run("annotations", "Alerts and remarks", d.Annotations()); err != nil {
		return out, err
	}
	for _, p := range d.Panels() {
		if _, err := run("panel", p.Title, p.Query); err != nil {
			return out, err
		}
	}
	return out, nil
}
