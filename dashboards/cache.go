package dashboards

const (
	// hitRatio is the platform's definition.
	hitRatio = `sum({cache_read_tokens}) / nullIf(sum({cache_read_tokens}) + sum({input_tokens}), 0)`
	// hitRatioWrites counts what was written as missed too.
	hitRatioWrites = `sum({cache_read_tokens}) / nullIf(sum({cache_read_tokens}) + sum({input_tokens}) + sum({cache_write_tokens}), 0)`

	hitRatioText = "Hit ratio is cache reads / (cache reads + uncached input); with writes, cache writes are added below the line: they were sent and not found. "
	noTokens     = "no tokens"
)

func cacheDashboard() Dashboard {
	d := Dashboard{
		UID: UIDCache, Title: "Cache", From: "now-24h", Variables: labelVariables(),
		Description: "Whether prompts are found in the cache, and what that saves.",
	}
	stat := func(title, unit, description, text string) Panel {
		return Panel{Title: title, Kind: Stat, Unit: unit, Empty: noTokens, Description: description, Query: spendQuery(text)}
	}
	d.Rows = []Row{
		{"Range", []Panel{
			stat("Hit ratio", Percent, hitRatioText, `SELECT `+hitRatio+` AS ratio FROM {spend}`),
			stat("Hit ratio with writes", Percent, hitRatioText, `SELECT `+hitRatioWrites+` AS ratio FROM {spend}`),
			stat("Saved", USD, "Cache reads × (input price − read price) − cache writes × (write price − input price), by the price of each call; negative if more was written than read.", `SELECT sum({cache_savings_usd}) AS usd FROM {spend}`),
			stat("Read from the cache", Tokens, "Cache read tokens.", `SELECT sum({cache_read_tokens}) AS tokens FROM {spend} HAVING count() > 0`),
		}},
		{"By kind", []Panel{
			{
				Title: "Hit ratio by kind", Kind: BarChart, Unit: Percent, Empty: noTokens, Max: 1,
				Description: hitRatioText + "The 25 kinds with the most input.",
				Query: spendQuery(`
SELECT {label:kind} AS kind, ` + hitRatio + ` AS hit_ratio, ` + hitRatioWrites + ` AS with_writes
FROM {spend} GROUP BY 1 ORDER BY sum({cache_read_tokens} + {input_tokens}) DESC, kind LIMIT 25`),
			},
			{
				Title: "Hit ratio over time", Kind: TimeSeries, Unit: Percent, Empty: noTokens, Max: 1,
				Series: "kind", Description: hitRatioText + "Without writes.",
				Query: spendQuery(`
SELECT $__timeInterval({time}) AS at, ` + top("kind", 10) + ` AS kind, ` + hitRatio + ` AS hit_ratio
FROM {series} GROUP BY 1, 2 ORDER BY 1, 2`),
			},
		}},
		{"Tokens and dollars", []Panel{
			{
				Title: "Tokens by class", Kind: Bars, Unit: Tokens, Empty: noTokens,
				Description: "Uncached input, cache reads, cache writes and output. The classes do not overlap.",
				Query: spendQuery(`
SELECT $__timeInterval({time}) AS at, sum({input_tokens}) AS input, sum({cache_read_tokens}) AS cache_read,
	sum({cache_write_tokens}) AS cache_write, sum({output_tokens}) AS output
FROM {series} GROUP BY 1 ORDER BY 1`),
			},
			{
				Title: "Saved over time", Kind: Bars, Unit: USD, Empty: noSpend,
				Series: "kind", Description: "Cache reads × (input price − read price) − cache writes × (write price − input price), by kind.",
				Query: spendQuery(`
SELECT $__timeInterval({time}) AS at, ` + top("kind", 10) + ` AS kind, sum({cache_savings_usd}) AS usd
FROM {series} GROUP BY 1, 2 ORDER BY 1, 2`),
			},
			{
				Title: "Cache writes by lifetime", Kind: Bars, Unit: Tokens, Empty: noTokens,
				Description: "How long what was written lives. Counters that are pushed do not tell: unknown.",
				Query: spendQuery(`
SELECT $__timeInterval({time}) AS at, sum({cache_write_5m_tokens}) AS five_minutes, sum({cache_write_1h_tokens}) AS one_hour,
	sum({cache_write_tokens}) - sum({cache_write_5m_tokens}) - sum({cache_write_1h_tokens}) AS unknown
FROM {series} GROUP BY 1 ORDER BY 1`),
			},
			{
				Title: "Worst repositories", Kind: Table, Unit: Percent, Empty: noTokens, Width: 12,
				Description: hitRatioText + "The lowest first, of repositories with at least a thousandth of all input, so that one small run is no headline. Uncached input is what a better ratio would save on.",
				Query: spendQuery(`
SELECT {label:repo} AS repo, ` + hitRatio + ` AS hit_ratio, ` + hitRatioWrites + ` AS with_writes,
	sum({input_tokens}) AS uncached_input, sum({cache_savings_usd}) AS saved_usd
FROM {spend} GROUP BY 1
HAVING sum({input_tokens} + {cache_read_tokens}) * 1000 >= (SELECT sum({input_tokens} + {cache_read_tokens}) FROM {spend})
ORDER BY hit_ratio NULLS LAST, repo LIMIT 25`),
				Units: map[string]string{"repo": Text, "uncached_input": Tokens, "saved_usd": USD},
			},
		}},
	}
	return d
}
