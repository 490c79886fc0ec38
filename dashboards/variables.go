package dashboards

import "github.com/szymonrychu/tatara-ledger/store/clickhouse"

// labelVariables are the choices of project, repository, kind and model. They are
// offered as they occur within the range, in whole hours.
func labelVariables() []Variable {
	names := map[string]string{"project": "Project", "repo": "Repository", "kind": "Kind", "model": "Model"}
	var out []Variable
	for _, f := range filters() {
		out = append(out, Variable{
			Name: f, Label: names[f], Multi: true,
			Description: "What had spend within the range. " + None + " is spend without this label.",
			Query:       choices("{label:"+f+"}", "{.} WHERE {time} >= toStartOfHour($__fromTime) AND {time} <= $__toTime"),
		})
	}
	return out
}

// choices are the values of a variable with several values. Grafana's singlequote
// format escapes quotes and leaves backslashes, which would then escape what
// follows them, so that the value has them doubled and the text has not.
func choices(label, from string) Query {
	return query(clickhouse.ViewSpendHourly,
		`SELECT replaceAll(choice, '\\', '\\\\') AS value, choice AS text FROM (SELECT DISTINCT `+label+` AS choice FROM `+from+`) ORDER BY text LIMIT 5000`)
}

// theTask is the value of the variable task, whatever it contains: one value can
// be encoded, which no character survives that SQL knows.
const theTask = `decodeURLComponent('${task:percentencode}')`

// taskVariable offers the tasks of the range, the most expensive first. A link
// may set it to any other.
func taskVariable() Variable {
	return Variable{
		Name: "task", Label: "Task", Description: "Tasks with spend within the range, the most expensive first; at most 1000.",
		Query: query(clickhouse.ViewSpend, `
SELECT {task} FROM {.} WHERE $__timeFilter({time}) AND {task} != ''
GROUP BY {task} ORDER BY sum({cost_usd}) DESC NULLS LAST, {task} LIMIT 1000`),
	}
}
