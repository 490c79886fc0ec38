package dashboards

import "github.com/szymonrychu/tatara-ledger/store/clickhouse"

// contextTokens are what was sent to the model, cached or not.
const contextTokens = `({input_tokens} + {cache_read_tokens} + {cache_write_tokens})`

// ofTask says which requests to handoffs and rooms were the task's: those under
// the id of one of its runs.
const ofTask = `$__timeFilter({time}) AND {request_id} != '' AND {request_id} IN (SELECT {runs.run} FROM {runs.} WHERE {runs.task} = ` + theTask + `)`

func taskDashboard() Dashboard {
	mine := `$__timeFilter({time}) AND {task} = ` + theTask
	d := Dashboard{
		UID: UIDTask, Title: "Task", From: "now-7d", Variables: []Variable{taskVariable()},
		Description: "One task: what it cost against its ceiling, and what it did for it.",
	}
	stat := func(view, title, unit, description, text string) Panel {
		return Panel{Title: title, Kind: Stat, Unit: unit, Empty: "unknown", Width: 4, Description: description, Query: query(view, text)}
	}
	d.Rows = []Row{
		{"Sums", []Panel{
			stat(clickhouse.ViewSpend, "Cost", USD, "All that the task ever cost up to the end of the range, all its runs together.",
				`SELECT sum({cost_usd}) AS usd FROM {.} WHERE {task} = `+theTask+` AND {time} <= $__toTime`),
			stat(clickhouse.ViewSpend, "Tokens", Tokens, "Tokens of all classes, since ever up to the end of the range.",
				`SELECT sum({input_tokens} + {output_tokens} + {cache_read_tokens} + {cache_write_tokens}) AS tokens FROM {.} WHERE {task} = `+theTask+` AND {time} <= $__toTime HAVING count() > 0`),
			stat(clickhouse.ViewSpend, "Unpriced", Tokens, "Tokens without a price: the cost is higher by what they cost.",
				`SELECT sum({unpriced_tokens}) AS tokens FROM {.} WHERE {task} = `+theTask+` AND {time} <= $__toTime HAVING count() > 0`),
			stat(clickhouse.ViewTurns, "Turns", Count, "Turns that ended within the range, whatever their result. Feeds of single calls know no turns.",
				`SELECT sum({turns}) AS turns FROM {.} WHERE `+mine+` HAVING count() > 0`),
			stat(clickhouse.ViewRuns, "Runs", Count, "Runs of the task, ever.",
				`SELECT uniqExact({run}) AS runs FROM {.} WHERE {task} = `+theTask+` HAVING count() > 0`),
			stat(clickhouse.ViewSpend, "Subagents' share", Percent, "Share of the cost within the range that subagents had. Counters that are pushed hold the main conversation only, so that their subagents are not in it.",
				`SELECT toFloat64(sumIf({cost_usd}, {agent} != '')) / nullIf(toFloat64(sum({cost_usd})), 0) AS share FROM {.} WHERE `+mine),
		}},
		{"Cost", []Panel{
			{
				Title: "Cumulative cost against the ceiling", Kind: TimeSeries, Unit: USD, Empty: noSpend, Width: 24,
				Description: "All that the task cost up to each moment, from before the range too. The ceiling is the limit of its cost at the last alert of it, and unknown until the first threshold is crossed.",
				Query: query(clickhouse.ViewSpend, `
SELECT at, sum(usd) OVER (ORDER BY at) AS cost,
	(SELECT argMaxOrNull({alerts.limit}, {alerts.time}) / 1e9 FROM {alerts.}
		WHERE {alerts.task} = `+theTask+` AND {alerts.alertname} = 'TaskCostCeiling') AS ceiling
FROM (
	SELECT $__timeInterval(moment) AS at, toFloat64(sum({cost_usd})) AS usd
	FROM (SELECT greatest({time}, $__fromTime) AS moment, {cost_usd} FROM {.} WHERE {task} = `+theTask+` AND {time} <= $__toTime)
	GROUP BY at
)
ORDER BY at`),
			},
			{
				Title: "Cost by model", Kind: Bars, Unit: USD, Empty: noSpend,
				Series: "model", Description: "What each model cost.",
				Query: spendQuery(`
SELECT $__timeInterval({time}) AS at, {label:model} AS model, sum({cost_usd}) AS usd
FROM {.} WHERE ` + mine + ` GROUP BY 1, 2 ORDER BY 1, 2`),
			},
			{
				Title: "Models", Kind: Table, Unit: Tokens, Empty: noSpend, Width: 12,
				Description: "Per model, effort and agent within the range. An agent without a name is the main one. Calls are unknown where only counters were pushed.",
				Query: spendQuery(`
SELECT {label:model} AS model, {label:effort} AS effort, if({agent} = '', 'main', {agent}) AS of_agent, sum({requests}) AS calls, sum({cost_usd}) AS usd,
	sum({input_tokens}) AS input, sum({cache_read_tokens}) AS cache_read, sum({cache_write_tokens}) AS cache_write, sum({output_tokens}) AS output
FROM {.} WHERE ` + mine + ` GROUP BY 1, 2, 3 ORDER BY usd DESC NULLS LAST, model, effort, of_agent`),
				Units: map[string]string{"model": Text, "effort": Text, "of_agent": Text, "usd": USD, "calls": Count},
			},
		}},
		{"Work", []Panel{
			{
				Title: "Turns by result", Kind: Bars, Unit: Count, Empty: "no turns",
				Series: "result", Description: "Turns that ended: complete, failed or interrupted.",
				Query: query(clickhouse.ViewTurns, `
SELECT $__timeInterval({time}) AS at, toString({result}) AS result, sum({turns}) AS ended
FROM {.} WHERE `+mine+` AND {turns} > 0 GROUP BY 1, 2 ORDER BY 1, 2`),
			},
			{
				Title: "Context per turn", Kind: TimeSeries, Unit: Tokens, Empty: "no turns",
				Description: "Tokens sent to models (uncached input, cache reads and cache writes) per turn that ended: it grows with the context. Unknown where no turn ended.",
				Query: query(clickhouse.ViewSpend, `
SELECT at, sum(sent) / nullIf(sum(ended), 0) AS tokens
FROM (
	SELECT $__timeInterval({time}) AS at, toFloat64(`+contextTokens+`) AS sent, 0 AS ended FROM {.} WHERE `+mine+`
	UNION ALL
	SELECT $__timeInterval({turns.time}) AS at, 0 AS sent, {turns.turns} AS ended FROM {turns.} WHERE $__timeFilter({turns.time}) AND {turns.task} = `+theTask+`
)
GROUP BY 1 ORDER BY 1`),
			},
			{
				Title: "Tools", Kind: Table, Unit: Count, Empty: "no tool calls", Width: 12,
				Description: "Tool calls within the range, and the share of them that ended in an error.",
				Query: query(clickhouse.ViewTools, `
SELECT toString({tool}) AS name, sum({calls}) AS used, sumIf({calls}, {outcome} = 'error') AS errors, errors / nullIf(used, 0) AS error_share
FROM {.} WHERE `+mine+` GROUP BY 1 ORDER BY used DESC, name LIMIT 100`),
				Units: map[string]string{"name": Text, "error_share": Percent},
			},
			{
				Title: "Outcomes", Kind: Table, Unit: Text, Empty: "nothing was said about the outcome", Width: 12,
				Description: "What the platform said came of the task, ever; the latest first.",
				Query: query(clickhouse.ViewOutcomes, `
SELECT {time}, {outcome}, {detail} FROM {.} WHERE {task} = `+theTask+` ORDER BY {time} DESC LIMIT 100`),
				Units: map[string]string{"time": Time},
			},
		}},
		{"Runs", []Panel{
			{
				Title: "Runs and restarts", Kind: Table, Unit: Tokens, Empty: "no runs",
				Description: "Runs of the task, the latest first. Lives are processes under one run's id: more than one is a restart.",
				Query: query(clickhouse.ViewRuns, `
SELECT {run}, {first_seen}, {last_seen}, {ended}, {lives}, {cost_usd} AS usd, {input_tokens} + {cache_read_tokens} + {cache_write_tokens} AS sent, {output_tokens} AS output
FROM {.} WHERE {task} = `+theTask+` ORDER BY {first_seen} DESC, {run} LIMIT 200`),
				Units: map[string]string{"run": Text, "first_seen": Time, "last_seen": Time, "ended": Time, "lives": Count, "usd": USD},
			},
			{
				Title: "Tasks of the same issue", Kind: Table, Unit: Count, Empty: "the task has no issue",
				Description: "Churn: how often the task's issue was taken up as a new task, and what each cost. The latest first.",
				Query: query(clickhouse.ViewTasks, `
SELECT {issue}, {task}, {label:kind} AS of_kind, {first_seen}, {last_seen}, {runs}, {cost_usd} AS usd
FROM {.} WHERE {issue} != '' AND {issue} IN (SELECT DISTINCT {spend.issue} FROM {spend.} WHERE {spend.task} = `+theTask+`)
ORDER BY {first_seen} DESC, {task} LIMIT 200`),
				Units: map[string]string{"issue": Text, "task": Text, "of_kind": Text, "first_seen": Time, "last_seen": Time, "usd": USD},
				Tasks: "task",
			},
		}},
		{"Handoffs and chat", []Panel{
			{
				Title: "Handoffs", Kind: Table, Unit: Count, Empty: "no handoff was read or written", Width: 12,
				Description: "What the task's runs did with handoffs within the range: requests under the id of a run. Reads are best effort.",
				Query: query(clickhouse.ViewChatEvents, `
SELECT {time}, {action}, {handoff_key}, {revision}, {approximate_tokens} AS tokens
FROM {.} WHERE `+ofTask+` AND {handoff_key} != '' ORDER BY {time} DESC LIMIT 200`),
				Units: map[string]string{"time": Time, "action": Text, "handoff_key": Text, "tokens": Tokens},
			},
			{
				Title: "Chat", Kind: Bars, Unit: Count, Empty: "no chat",
				Series: "action", Description: "What the task's runs did in rooms: requests under the id of a run.",
				Query: query(clickhouse.ViewChatEvents, `
SELECT $__timeInterval({time}) AS at, toString({action}) AS action, count() AS events
FROM {.} WHERE `+ofTask+` AND {handoff_key} = '' GROUP BY 1, 2 ORDER BY 1, 2`),
			},
		}},
	}
	return d
}
