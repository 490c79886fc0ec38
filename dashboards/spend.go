package dashboards

import "github.com/szymonrychu/tatara-ledger/store/clickhouse"

func spendQuery(text string) Query { return query(clickhouse.ViewSpend, text) }

// over is spend over time by a label, the largest told apart.
func over(column string) Query {
	return spendQuery(`
SELECT $__timeInterval({time}) AS at, ` + top(column, 10) + ` AS ` + column + `, sum({cost_usd}) AS usd
FROM {series} GROUP BY 1, 2 ORDER BY 1, 2`)
}

const noSpend = "no spend"

func spendDashboard() Dashboard {
	const counts = "What counts is the computed cost, else what the source reported; tokens without a price are in neither (see Unpriced). "
	d := Dashboard{
		UID: UIDSpend, Title: "Fleet spend", From: "now-24h",
		Description: "What the fleet costs, by whom, and whether a change of models helped.",
		Variables:   labelVariables(),
	}
	now := func(title, description, text string) Panel {
		return Panel{Title: title, Description: description, Kind: Stat, Unit: USD, Empty: noSpend, Query: query(clickhouse.ViewSpendHourly, text)}
	}
	d.Rows = []Row{
		{"Now", []Panel{
			now("Today", counts+"The UTC day in which the range ends, up to its end, to the hour.", `
SELECT sum({cost_usd}) AS usd FROM {.}
WHERE {time} >= toStartOfDay($__toTime, 'UTC') AND {time} <= $__toTime AND `+selected(clickhouse.ViewSpendHourly)),
			now("This month", counts+"The UTC month in which the range ends, up to its end, to the hour.", `
SELECT sum({cost_usd}) AS usd FROM {.}
WHERE {time} >= toStartOfMonth($__toTime, 'UTC') AND {time} <= $__toTime AND `+selected(clickhouse.ViewSpendHourly)),
			now("Month forecast", "This month's spend, and for what remains of the month the mean of the last seven days before the end of the range.", `
SELECT sumIf({cost_usd}, {time} >= toStartOfMonth($__toTime, 'UTC'))
	+ sumIf({cost_usd}, {time} > $__toTime - INTERVAL 7 DAY)
	* toDecimal64((toDateTime(toStartOfMonth($__toTime, 'UTC') + INTERVAL 1 MONTH, 'UTC') - $__toTime) / (7 * 86400), 6) AS usd
FROM {.}
WHERE {time} >= least(toDateTime(toStartOfMonth($__toTime, 'UTC'), 'UTC'), $__toTime - INTERVAL 7 DAY) AND {time} <= $__toTime
	AND `+selected(clickhouse.ViewSpendHourly)),
			{
				Title: "Per hour", Kind: Stat, Unit: USD, Empty: noSpend,
				Description: counts + "The hour before the end of the range.",
				Query: spendQuery(`
SELECT sum({cost_usd}) AS usd FROM {.}
WHERE {time} > $__toTime - INTERVAL 1 HOUR AND {time} <= $__toTime AND ` + selected(clickhouse.ViewSpend)),
			},
		}},
		{"Over time", []Panel{
			{Title: "By kind", Kind: Bars, Unit: USD, Empty: noSpend, Query: over("kind"), Series: "kind", Description: counts + "The ten kinds with the most spend within the range."},
			{Title: "By repository", Kind: Bars, Unit: USD, Empty: noSpend, Query: over("repo"), Series: "repo", Description: counts + "The ten repositories with the most spend within the range."},
			{Title: "By project", Kind: Bars, Unit: USD, Empty: noSpend, Query: over("project"), Series: "project", Description: counts + "The ten projects with the most spend within the range."},
			{Title: "By model", Kind: Bars, Unit: USD, Empty: noSpend, Query: over("model"), Series: "model", Description: counts + "The ten models with the most spend within the range."},
		}},
		{"Who", []Panel{
			{
				Title: "Top tasks", Kind: Table, Unit: USD, Empty: noSpend, Height: 10,
				Description: counts + "The twenty most expensive tasks of the range. Ceiling share is the highest percent of its ceilings that a task is known to have crossed, ever, and limit that of its cost; both are unknown until the first crossing.",
				Query: spendQuery(`
SELECT spent.task AS task, of_kind, of_repo, usd, tokens, runs, nullIf(alert.share, 0) / 100 AS ceiling_share, alert.limit_usd AS limit_usd
FROM (
	SELECT {task} AS task, any({label:kind}) AS of_kind, any({label:repo}) AS of_repo, sum({cost_usd}) AS usd,
		sum({input_tokens} + {output_tokens} + {cache_read_tokens} + {cache_write_tokens}) AS tokens, uniqExactIf({run}, {run} != '') AS runs
	FROM {.} WHERE {where} AND {task} != '' GROUP BY {task} ORDER BY usd DESC NULLS LAST LIMIT 20
) AS spent
LEFT JOIN (
	SELECT {alerts.task} AS task, max({alerts.threshold}) AS share,
		argMaxOrNullIf({alerts.limit}, {alerts.time}, {alerts.alertname} = 'TaskCostCeiling') / 1e9 AS limit_usd
	FROM {alerts.} GROUP BY {alerts.task}
) AS alert ON spent.task = alert.task
ORDER BY usd DESC NULLS LAST`),
				Units: map[string]string{"task": Text, "of_kind": Text, "of_repo": Text, "tokens": Tokens, "runs": Count, "ceiling_share": Percent},
				Tasks: "task",
			},
			{
				Title: "This period against the one before", Kind: Table, Unit: USD, Empty: noSpend, Height: 10,
				Description: "By kind and model: the range, and as long a time just before it. Per million is dollars per million tokens of all classes: it falls where a cheaper model took over or the cache works better, whatever the amount of work.",
				Query: spendQuery(`
SELECT {label:kind} AS kind, {label:model} AS model,
	sumIf({cost_usd}, {time} >= $__fromTime) AS usd, sumIf({cost_usd}, {time} < $__fromTime) AS usd_before,
	toFloat64(usd) / nullIf(toFloat64(usd_before), 0) - 1 AS change,
	toFloat64(usd) * 1e6 / nullIf(sumIf({input_tokens} + {output_tokens} + {cache_read_tokens} + {cache_write_tokens}, {time} >= $__fromTime), 0) AS per_million,
	toFloat64(usd_before) * 1e6 / nullIf(sumIf({input_tokens} + {output_tokens} + {cache_read_tokens} + {cache_write_tokens}, {time} < $__fromTime), 0) AS per_million_before
FROM {.}
WHERE {time} >= $__fromTime - ($__toTime - $__fromTime) AND {time} <= $__toTime AND ` + selected(clickhouse.ViewSpend) + `
GROUP BY 1, 2 ORDER BY greatest(ifNull(usd, 0), ifNull(usd_before, 0)) DESC, kind, model LIMIT 100`),
				Units: map[string]string{"kind": Text, "model": Text, "change": Percent},
			},
		}},
		{"How sure", []Panel{
			{
				Title: "Reported against computed", Kind: TimeSeries, Unit: USD, Empty: noSpend,
				Description: "Computed is tokens by the price book, reported is what sources said it cost. Where a source says nothing, reported is lower by that.",
				Query: spendQuery(`
SELECT $__timeInterval({time}) AS at, sum({computed_cost_usd}) AS computed, sum({reported_cost_usd}) AS reported
FROM {series} GROUP BY 1 ORDER BY 1`),
			},
			{
				Title: "Unpriced", Kind: Table, Unit: Tokens, Empty: "no tokens", Width: 12,
				Description: "Tokens of classes or models for which the price book had no price when they came: they are in no dollar figure. Add the model to the price file. Share is of all tokens of the model.",
				Query: spendQuery(`
SELECT {label:model} AS model, sum({unpriced_tokens}) AS unpriced,
	sum({unpriced_tokens}) / nullIf(sum({input_tokens} + {output_tokens} + {cache_read_tokens} + {cache_write_tokens}), 0) AS share
FROM {spend} GROUP BY 1 ORDER BY unpriced DESC, model LIMIT 50`),
				Units: map[string]string{"model": Text, "share": Percent},
			},
		}},
	}
	return d
}
