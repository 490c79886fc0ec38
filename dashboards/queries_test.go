package dashboards

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/health"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

func plain(s string) string { return s }

// strange names end in what quoting gets wrong most easily.
func strange(s string) string {
	return `🙂 it's <script>"` + s + `"</script> ${kind} \b\\ %41+&=` + "`\t" + `\`
}

// Every panel and variable query returns rows over a fleet of every kind, whatever
// it calls things, and with every label chosen.
func TestEveryQueryReturnsRows(t *testing.T) {
	t.Parallel()
	for label, name := range map[string]func(string) string{"plain": plain, "strange": strange} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			c := fleet(t, l, name)
			everything := checked(t, l, c)
			maps.Copy(c.Values, chosen(t, everything))
			selected := checked(t, l, c)
			for _, d := range All(options(t)) {
				panels := map[string]Panel{}
				for _, p := range d.Panels() {
					panels[p.Title] = p
				}
				for i, r := range everything[d.UID] {
					t.Run(d.UID+"/"+r.What+"/"+r.Name, func(t *testing.T) {
						hasRows(t, panels[r.Name], r)
						// All labels chosen one by one are all rows.
						if s := selected[d.UID][i]; s.Error != "" || s.Rows != r.Rows {
							t.Errorf("%d rows with every value chosen, want %d: %s", s.Rows, r.Rows, s.Error)
						}
					})
				}
			}
		})
	}
}

// chosen are all values of all variables with several.
func chosen(t *testing.T, results map[string][]Result) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, r := range results[UIDSpend] {
		if r.What == "variable" {
			for _, row := range r.Answer.Rows {
				out[r.Name] = append(out[r.Name], row[0].(string))
			}
		}
	}
	if len(out) != len(filters()) {
		t.Fatalf("values of %v", slices.Collect(maps.Keys(out)))
	}
	for name, values := range out {
		if !slices.Contains(values, None) { // what has no spend may be without a label
			out[name] = append(values, None)
		}
	}
	return out
}

// hasRows fails unless there is something to draw: rows, with a value that is
// known, in the form that the datasource needs.
func hasRows(t *testing.T, p Panel, r Result) {
	t.Helper()
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	if r.Rows == 0 {
		t.Fatal("no rows")
	}
	series := r.What == "panel" && (p.Kind == TimeSeries || p.Kind == Bars)
	var known, labels int
	var last time.Time
	for _, row := range r.Answer.Rows {
		for i, v := range row {
			text := strings.Contains(r.Answer.Types[i], "String")
			switch {
			case series && i == 0:
				at, ok := v.(time.Time)
				if !ok || at.Before(last) {
					t.Fatalf("the first column is %s, %v after %v", r.Answer.Types[0], v, last)
				}
				last = at
			case series && text:
				if r.Answer.Columns[i] != p.Series {
					t.Fatalf("the series are named by %q, the panel says %q", r.Answer.Columns[i], p.Series)
				}
				labels++
			case r.What != "panel" || !text || p.Unit == Text:
				if v := reflect.ValueOf(v); v.Kind() != reflect.Pointer || !v.IsNil() {
					known++
				}
			}
		}
	}
	if known == 0 {
		t.Error("every value is null")
	}
	if series && (p.Series != "") != (labels > 0) {
		t.Errorf("%d labels, the panel names series by %q", labels, p.Series)
	}
	for column := range p.Units {
		if !slices.Contains(r.Answer.Columns, column) {
			t.Errorf("a unit of a column that there is not: %q of %v", column, r.Answer.Columns)
		}
	}
	if p.Tasks != "" && !slices.Contains(r.Answer.Columns, p.Tasks) {
		t.Errorf("a link of a column that there is not: %q", p.Tasks)
	}
}

// On an empty ledger, over any range, nothing is an error.
func TestAnEmptyLedgerIsNoError(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]Choice{
		"hour":  {From: at.Add(-time.Hour), To: at, Interval: 5 * time.Minute},
		"month": {From: at.Add(-30 * 24 * time.Hour), To: at, Interval: time.Hour},
	} {
		for uid, results := range checked(t, l, c) {
			for _, r := range results {
				if r.Error != "" {
					t.Errorf("%s: %s %s %q: %s", name, uid, r.What, r.Name, r.Error)
				}
			}
		}
	}
}

// A long range reads whole hours, and has the same sum.
func TestLongRangesSumTheSame(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	c := fleet(t, l, plain)
	total := func(from time.Time, interval time.Duration, text string) string {
		t.Helper()
		c.From, c.Interval = from, interval
		sql, err := query(clickhouse.ViewSpend, text).Expand(c)
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Select(t.Context(), sql, 1)
		if err != nil {
			t.Fatal(err)
		}
		return s.Rows[0][0].(string)
	}
	const all = `concat(toString(assumeNotNull(sum({cost_usd}))), ' ', toString(sum({input_tokens})), ' ', toString(count() > 0))`
	early := c.From.Add(-6 * time.Hour).Add(7 * time.Minute)
	want := total(early, time.Minute, "SELECT "+all+" FROM {.} WHERE {where}")
	for _, from := range []time.Time{early, early.Add(-30 * 24 * time.Hour)} {
		for _, source := range []string{"{spend}", "{series}"} {
			for _, interval := range []time.Duration{time.Minute, time.Hour} {
				if diff := cmp.Diff(want, total(from, interval, "SELECT "+all+" FROM "+source)); diff != "" {
					t.Errorf("%s from %s every %s:\n%s", source, from, interval, diff)
				}
			}
		}
	}
}

// Every series that a panel names is one that the service samples.
func TestSeriesAreSampled(t *testing.T) {
	t.Parallel()
	series := regexp.MustCompile(`'((?:tatara_ledger|chat)_[a-z_]+?)(?:_sum|_count)?'`)
	found := 0
	for _, d := range All(options(t)) {
		for _, p := range d.Panels() {
			if !strings.Contains(p.Query.SQL, "FROM "+clickhouse.ViewHealth+" ") {
				continue
			}
			for _, m := range series.FindAllStringSubmatch(p.Query.SQL, -1) {
				if strings.HasSuffix(m[1], "_") { // a prefix that is cut off a name
					continue
				}
				found++
				if !slices.Contains(health.Names(), m[1]) {
					t.Errorf("%s: %q is not sampled", p.Title, m[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d series found", found)
	}
}
