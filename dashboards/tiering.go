package dashboards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

// priceTable are the prices of models as an array of tuples for SQL: model, valid
// from, and dollars per million tokens of input, output, cache reads, and cache
// writes that live five minutes and an hour, null where there is none. Of tiers by
// the size of the prompt it has the lowest, as sums tell no sizes.
func priceTable(rows []pricing.Row) string {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b pricing.Row) int {
		return cmp.Or(strings.Compare(a.Model, b.Model), a.ValidFrom.Compare(b.ValidFrom))
	})
	var tuples []string
	for _, r := range rows {
		if r.AbovePromptTokens > 0 {
			continue
		}
		from := int64(0)
		if !r.ValidFrom.IsZero() {
			from = r.ValidFrom.Unix()
		}
		t := fmt.Sprintf("(%s, toDateTime(%d, 'UTC')", quote(r.Model), from)
		for _, rate := range []pricing.NullRate{r.Input, r.Output, r.CacheRead, r.CacheWrite5m, r.CacheWrite1h} {
			if rate.Valid {
				t += ", toNullable(toFloat64(" + rate.Rate.String() + "))"
			} else {
				t += ", CAST(NULL, 'Nullable(Float64)')"
			}
		}
		tuples = append(tuples, t+")")
	}
	return "[" + strings.Join(tuples, ", ") + "]"
}

// models are the models with a price, sorted.
func models(rows []pricing.Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Model)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// quote is a string literal of SQL.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func tieringDashboard(prices []pricing.Row) Dashboard {
	const (
		all     = `sum({input_tokens} + {output_tokens} + {cache_read_tokens} + {cache_write_tokens})`
		changed = `parseDateTimeBestEffortOrZero(${since:singlequote}, 'UTC')`
	)
	d := Dashboard{
		UID: UIDTiering, Title: "Tiering", From: "now-30d",
		Description: "Which model does which work at which effort, what another would have cost, and whether the quality holds.",
		Variables: append(labelVariables(),
			Variable{Name: "other", Label: "Compare with", Custom: models(prices), Description: "The model whose prices the same tokens are given."},
			Variable{Name: "since", Label: "Before and after", Text: "2026-11-01", Description: "A date, or a date and time, UTC: what is before is compared with what is after."}),
	}
	d.Rows = []Row{
		{"Now", []Panel{
			{
				Title: "By kind, model and effort", Kind: Table, Unit: USD, Empty: noSpend, Height: 10,
				Description: "Spend and tokens within the range. Per million is dollars per million tokens of all classes.",
				Query: spendQuery(`
SELECT {label:kind} AS kind, {label:model} AS model, {label:effort} AS effort, sum({cost_usd}) AS usd, ` + all + ` AS tokens,
	sum({output_tokens}) AS output, toFloat64(sum({cost_usd})) * 1e6 / nullIf(` + all + `, 0) AS per_million
FROM {spend} GROUP BY 1, 2, 3 ORDER BY usd DESC NULLS LAST, kind, model, effort LIMIT 200`),
				Units: map[string]string{"kind": Text, "model": Text, "effort": Text, "tokens": Tokens, "output": Tokens},
			},
			{
				Title: "The same tokens on another model", Kind: Table, Unit: USD, Empty: noSpend, Height: 10,
				Description: "What the tokens would have cost by the prices of the chosen model at the end of the range: of the price book that these dashboards were rendered with, its lowest tier, without batch or regional factors; cache writes of unknown lifetime as if they lived five minutes. Another model would use other tokens: it is a comparison of prices. Unknown where it has no price for a class that was used.",
				Query: spendQuery(`
WITH arrayFilter(p -> p.1 = ${other:singlequote} AND p.2 <= $__toTime, ` + priceTable(prices) + `)[-1] AS p
SELECT kind, model, usd,
	if(input = 0, 0, input * p.3 / 1e6) + if(output = 0, 0, output * p.4 / 1e6) + if(cache_read = 0, 0, cache_read * p.5 / 1e6)
		+ if(cache_write = write_1h, 0, (cache_write - write_1h) * p.6 / 1e6) + if(write_1h = 0, 0, write_1h * p.7 / 1e6) AS other_usd,
	other_usd / nullIf(toFloat64(usd), 0) - 1 AS change
FROM (
	SELECT {label:kind} AS kind, {label:model} AS model, sum({cost_usd}) AS usd, sum({input_tokens}) AS input, sum({output_tokens}) AS output,
		sum({cache_read_tokens}) AS cache_read, sum({cache_write_tokens}) AS cache_write, sum({cache_write_1h_tokens}) AS write_1h
	FROM {spend} GROUP BY 1, 2
)
ORDER BY usd DESC NULLS LAST, kind, model LIMIT 200`),
				Units: map[string]string{"kind": Text, "model": Text, "change": Percent},
			},
		}},
		{"Change", []Panel{
			{
				Title: "Before and after", Kind: Table, Unit: USD, Empty: noSpend, Height: 10,
				Description: "By kind: the part of the range before the chosen date, and the part from it on. Per task is spend by the number of tasks that had any; unknown where there was none.",
				Query: spendQuery(`
SELECT {label:kind} AS of_kind,
	sumIf({cost_usd}, {time} < ` + changed + `) AS usd_before, sumIf({cost_usd}, {time} >= ` + changed + `) AS usd_after,
	toFloat64(usd_before) / nullIf(uniqExactIf({task}, {time} < ` + changed + `), 0) AS per_task_before,
	toFloat64(usd_after) / nullIf(uniqExactIf({task}, {time} >= ` + changed + `), 0) AS per_task_after,
	per_task_after / nullIf(per_task_before, 0) - 1 AS change
FROM {.} WHERE {where} AND {task} != ''
GROUP BY 1 ORDER BY greatest(ifNull(usd_before, 0), ifNull(usd_after, 0)) DESC, of_kind LIMIT 100`),
				Units: map[string]string{"of_kind": Text, "change": Percent},
			},
			{
				Title: "Share of models", Kind: TimeSeries, Unit: USD, Empty: noSpend,
				Series: "model", Description: "Spend by model over time: a tier change shows as one line taking over from another.",
				Query: over("model"),
			},
			{
				Title: "Subagents' share", Kind: TimeSeries, Unit: Percent, Empty: noSpend, Max: 1,
				Series: "kind", Description: "Share of the spend that subagents had, by kind, of feeds that know single calls: pushed counters hold the main conversation only and are left out.",
				Query: spendQuery(`
SELECT $__timeInterval({time}) AS at, {label:kind} AS kind, toFloat64(sumIf({cost_usd}, {agent} != '')) / nullIf(toFloat64(sum({cost_usd})), 0) AS share
FROM {series} WHERE {feed} != 'push' GROUP BY 1, 2 ORDER BY 1, 2`),
			},
		}},
		{"Quality", []Panel{
			{
				Title: "Cost per outcome", Kind: Table, Unit: USD, Empty: "nothing was said about outcomes", Height: 10,
				Description: "By kind and the model that a task spent most on: outcomes of the range, and what their tasks cost within it, each task once per outcome. A cheaper model whose outcomes are rarer costs more per outcome.",
				Query: query(clickhouse.ViewOutcomes, `
SELECT {outcome}, kind, model, count() AS tasks, sum(said) AS outcomes, sum(usd) AS usd_of_tasks, toFloat64(sum(usd)) / sum(said) AS per_outcome
FROM (SELECT {task}, toString({outcome}) AS outcome, count() AS said FROM {.} WHERE $__timeFilter({time}) GROUP BY 1, 2) AS came
INNER JOIN (
	SELECT task, any(kinds) AS kind, argMax(models, ifNull(cost, 0)) AS model, sum(cost) AS usd
	FROM (
		SELECT {spend.task} AS task, any(if({spend.kind} = '', '`+None+`', toString({spend.kind}))) AS kinds,
			if({spend.model} = '', '`+None+`', toString({spend.model})) AS models, sum({spend.cost_usd}) AS cost
		FROM {spend.} WHERE `+where(clickhouse.ViewSpend)+` AND {spend.task} != '' GROUP BY task, models
	)
	GROUP BY task
) AS spent ON came.task = spent.task
GROUP BY 1, 2, 3 ORDER BY outcome, usd_of_tasks DESC NULLS LAST, kind, model LIMIT 200`),
				Units: map[string]string{"outcome": Text, "kind": Text, "model": Text, "tasks": Count, "outcomes": Count},
			},
		}},
	}
	return d
}
