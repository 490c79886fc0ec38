package dashboards

import (
	"errors"
	"fmt"
	"strings"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// Validate reports everything that keeps a dashboard from being rendered: queries
// that name what does not exist, and panels that say too little.
func (d *Dashboard) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if d.UID == "" || len(d.UID) > 40 || d.Title == "" || d.Description == "" || d.From == "" {
		wrong("a dashboard needs a UID of at most 40 characters, a title, a description and a range")
	}
	for _, v := range d.Variables {
		if v.Name == "" || v.Label == "" || v.Description == "" {
			wrong("variable %q: needs a name, a label and a description", v.Name)
		}
		if v.Query.err != nil {
			wrong("variable %s: %w", v.Name, v.Query.err)
		}
		if v.Query.SQL == "" && len(v.Custom) == 0 && v.Text == "" {
			wrong("variable %s has no choices", v.Name)
		}
	}
	if err := d.Annotations().err; err != nil {
		wrong("annotations: %w", err)
	}
	titles := map[string]bool{}
	for _, p := range d.Panels() {
		switch {
		case p.Title == "" || titles[p.Title]:
			wrong("panel %q: the title is missing or used twice", p.Title)
		case p.Description == "" || p.Unit == "" || p.Empty == "" || p.Query.SQL == "":
			wrong("panel %q: needs a description, a unit, a text for nothing, and a query", p.Title)
		case p.Query.err != nil:
			wrong("panel %q: %w", p.Title, p.Query.err)
		}
		titles[p.Title] = true
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("dashboard %s: %w", d.UID, err)
	}
	return nil
}

// Annotations selects what is marked on the time axis: when alerts of tasks fired,
// and what was posted, such as a change of models; of the chosen projects and
// task, or of none in particular.
func (d *Dashboard) Annotations() Query {
	conditions := "$__timeFilter({time})"
	for _, v := range d.Variables {
		switch v.Name {
		case "project":
			conditions += " AND ({project} = '' OR " + selected(clickhouse.ViewAnnotations) + ")"
		case "task":
			conditions += " AND ({task} = '' OR {task} = " + theTask + ")"
		}
	}
	return query(clickhouse.ViewAnnotations, `
SELECT {time}, {time_end} AS timeEnd, {text}, arrayStringConcat({tags}, ',') AS tags
FROM {.} WHERE `+conditions+` ORDER BY {time} LIMIT 1000`)
}

// customValues is a list of values as Grafana writes it: comma-separated, with a
// backslash before a comma within a value.
func customValues(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.ReplaceAll(v, ",", `\,`)
	}
	return strings.Join(out, ",")
}
