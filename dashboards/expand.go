package dashboards

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Choice is what a viewer chose: a range, and values of variables.
type Choice struct {
	// From and To bound the range; both count, to the second.
	From, To time.Time
	// Interval is the time between two points; at least a second.
	Interval time.Duration
	// Values of variables by name, as their queries give them. A variable with
	// several values that is missing is All; any other is empty.
	Values map[string][]string
}

var (
	variablePattern = regexp.MustCompile(`\$\{(\w+)(?::(\w+))?\}`)
	macroPattern    = regexp.MustCompile(`\$__(\w+)(?:\(([A-Za-z_][A-Za-z_0-9]*)\))?`)
)

const conditionalAll = "$__conditionalAll("

// Expand is the query as ClickHouse gets it: what Grafana's front end and the
// ClickHouse datasource make of it, in their order. A macro or a format that is
// not among those that mean the same in every version is an error.
func (q Query) Expand(c Choice) (string, error) {
	if q.err != nil {
		return "", q.err
	}
	sql, err := c.conditions(q.SQL)
	if err != nil {
		return "", err
	}
	// What variables bring in may look like a macro, as it may in Grafana; here it
	// is kept from being expanded, so that a label is never more than a value.
	parts := variablePattern.FindAllStringSubmatchIndex(sql, -1)
	var out strings.Builder
	last := 0
	for _, m := range parts {
		text, err := c.macros(sql[last:m[0]])
		if err != nil {
			return "", err
		}
		format := ""
		if m[4] >= 0 {
			format = sql[m[4]:m[5]]
		}
		value, err := c.value(sql[m[2]:m[3]], format)
		if err != nil {
			return "", err
		}
		out.WriteString(text + value)
		last = m[1]
	}
	text, err := c.macros(sql[last:])
	out.WriteString(text)
	return out.String(), err
}

// conditions resolves $__conditionalAll(condition, $variable).
func (c Choice) conditions(sql string) (string, error) {
	for {
		start := strings.LastIndex(sql, conditionalAll)
		if start < 0 {
			return sql, nil
		}
		depth, comma, end := 1, -1, -1
		for i := start + len(conditionalAll); i < len(sql) && end < 0; i++ {
			switch sql[i] {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					end = i
				}
			case ',':
				if depth == 1 {
					comma = i
				}
			}
		}
		if comma < 0 || end < 0 {
			return "", fmt.Errorf("expanding %s…: want a condition and a variable", conditionalAll)
		}
		condition := sql[start+len(conditionalAll) : comma]
		name := strings.TrimPrefix(strings.TrimSpace(sql[comma+1:end]), "$")
		if len(c.Values[name]) == 0 {
			condition = "1=1"
		}
		sql = sql[:start] + condition + sql[end+1:]
	}
}

// value is a variable's value in one of Grafana's formats. As in Grafana,
// singlequote escapes quotes and nothing else.
func (c Choice) value(name, format string) (string, error) {
	values := c.Values[name]
	switch format {
	case "singlequote":
		if len(values) == 0 {
			return "''", nil
		}
		quoted := make([]string, len(values))
		for i, v := range values {
			quoted[i] = "'" + strings.ReplaceAll(v, "'", `\'`) + "'"
		}
		return strings.Join(quoted, ","), nil
	case "percentencode":
		if len(values) > 1 {
			return "", fmt.Errorf("expanding ${%s:%s}: several values cannot be told apart", name, format)
		}
		return strings.ReplaceAll(url.QueryEscape(strings.Join(values, "")), "+", "%20"), nil
	}
	return "", fmt.Errorf("expanding ${%s:%s}: a variable needs the format singlequote or percentencode", name, format)
}

// macros expands the macros of the datasource's back end.
func (c Choice) macros(sql string) (string, error) {
	var err error
	from, to := "toDateTime("+strconv.FormatInt(c.From.Unix(), 10)+")", "toDateTime("+strconv.FormatInt(c.To.Unix(), 10)+")"
	seconds := strconv.FormatInt(int64(max(c.Interval/time.Second, 1)), 10)
	out := macroPattern.ReplaceAllStringFunc(sql, func(s string) string {
		m := macroPattern.FindStringSubmatch(s)
		switch name, column := m[1], m[2]; {
		case name == "timeFilter" && column != "":
			return column + " >= " + from + " AND " + column + " <= " + to
		case name == "timeInterval" && column != "":
			return "toStartOfInterval(toDateTime(" + column + "), INTERVAL " + seconds + " second)"
		case name == "fromTime" && column == "":
			return from
		case name == "toTime" && column == "":
			return to
		case name == "interval_s" && column == "":
			return seconds
		}
		err = fmt.Errorf("expanding %s: no such macro, or not of a plain column", s)
		return s
	})
	return out, err
}
