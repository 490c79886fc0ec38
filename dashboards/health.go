package dashboards

import "github.com/szymonrychu/tatara-ledger/store/clickhouse"

// rate is a counter's increase per second by a label, all replicas together.
func rate(series, by string) Query {
	return query(clickhouse.ViewHealth, `
SELECT $__timeInterval({time}) AS at, `+by+` AS series, sum({increase}) / $__interval_s AS per_second
FROM {.} WHERE $__timeFilter({time}) AND `+series+` GROUP BY 1, 2 ORDER BY 1, 2`)
}

// increase is a counter's increase by a label, all replicas together.
func increase(series, by string) Query {
	return query(clickhouse.ViewHealth, `
SELECT $__timeInterval({time}) AS at, `+by+` AS series, sum({increase}) AS increase
FROM {.} WHERE $__timeFilter({time}) AND `+series+` GROUP BY 1, 2 ORDER BY 1, 2`)
}

// gauge is the highest value of a gauge by a label, of all replicas.
func gauge(series, by string) Query {
	return query(clickhouse.ViewHealth, `
SELECT $__timeInterval({time}) AS at, `+by+` AS series, max({value}) AS value
FROM {.} WHERE $__timeFilter({time}) AND `+series+` GROUP BY 1, 2 ORDER BY 1, 2`)
}

// mean is the mean of a histogram by a label.
func mean(histogram, by string) Query {
	return query(clickhouse.ViewHealth, `
SELECT $__timeInterval({time}) AS at, `+by+` AS series,
	sumIf({increase}, endsWith({name}, '_sum')) / nullIf(sumIf({increase}, endsWith({name}, '_count')), 0) AS mean
FROM {.} WHERE $__timeFilter({time}) AND {name} IN ('`+histogram+`_sum', '`+histogram+`_count') GROUP BY 1, 2 ORDER BY 1, 2`)
}

const noSamples = "no health samples"

func healthDashboard() Dashboard {
	const replicas = " Of all replicas together."
	d := Dashboard{
		UID: UIDHealth, Title: "Pipeline health", From: "now-6h", Variables: labelVariables()[:1],
		Description: "Whether what agents spend arrives: sources, the journal, the stores, the delivery of alerts.",
	}
	panel := func(title string, kind Kind, unit, description string, q Query) Panel {
		return Panel{Title: title, Kind: kind, Unit: unit, Empty: noSamples, Series: "series", Interval: "1m", Description: description, Query: q}
	}
	d.Rows = []Row{
		{"Sources", []Panel{
			{
				Title: "Sources", Kind: Table, Unit: Seconds, Empty: "no source was ever heard", Width: 12,
				Description: "When each feed of each project was first and last heard. Silence is the time from then to the end of the range.",
				Query: query(clickhouse.ViewSources, `
SELECT toString({feed}) AS of_feed, {label:project} AS of_project, {first_heard}, {last_heard}, greatest(dateDiff('second', {last_heard}, $__toTime), 0) AS silence
FROM {.} WHERE `+selected(clickhouse.ViewSources)+` ORDER BY {last_heard}, of_feed, of_project LIMIT 500`),
				Units: map[string]string{"of_feed": Text, "of_project": Text, "first_heard": Time, "last_heard": Time},
			},
			panel("Facts accepted", Bars, Count, "Facts that receivers acknowledged, by feed."+replicas, increase(`{name} = 'tatara_ledger_receive_facts_total'`, `{labels}['feed']`)),
			panel("Refused or not kept", Bars, Count, "Requests and calls that were refused, and pushed series that the ledger does not keep, by reason. Of a healthy fleet the latter is 0 but for a new wrapper."+replicas,
				increase(`{name} IN ('tatara_ledger_receive_rejected_total', 'tatara_ledger_receive_ignored_series_total')`, `concat(if({name} = 'tatara_ledger_receive_rejected_total', 'refused ', 'not kept '), {labels}['feed'], ' ', {labels}['reason'])`)),
			panel("Set aside, folded, conflicting", Bars, Count, "Records that the ledger refused and kept in a file, labels folded into other, and ids that came back with other content."+replicas,
				increase(`{name} IN ('tatara_ledger_writer_set_aside_records_total', 'tatara_ledger_writer_folded_labels_total', 'tatara_ledger_writer_conflicts_total')`, `concat(replaceOne(toString({name}), 'tatara_ledger_writer_', ''), ' ', {labels}['reason'], {labels}['label'])`)),
		}},
		{"Journal and writer", []Panel{
			panel("Journal", TimeSeries, Bytes, "What waits in the journal, and its bound, of the fullest replica. At the bound receivers answer 503.",
				gauge(`{name} IN ('tatara_ledger_journal_bytes', 'tatara_ledger_journal_capacity_bytes')`, `replaceOne(toString({name}), 'tatara_ledger_journal_', '')`)),
			panel("Lag", TimeSeries, Seconds, "Mean age of the oldest fact of a batch when the batch became visible."+replicas, mean("tatara_ledger_writer_lag_seconds", "'lag'")),
			panel("Batches", Bars, Count, "Attempts to write a batch, by result."+replicas, increase(`{name} = 'tatara_ledger_writer_attempts_total'`, `{labels}['result']`)),
			panel("Dirty buckets", TimeSeries, Count, "Buckets of five minutes that are read from charges because the rollup does not have them yet. It should fall back after each burst.", gauge(`{name} = 'tatara_ledger_closer_dirty_buckets'`, "'dirty'")),
		}},
		{"Stores", []Panel{
			panel("Time to answer", TimeSeries, Seconds, "How long each of the service's checks of its stores took last, of the slowest replica.", gauge(`{name} = 'tatara_ledger_ready_duration_seconds'`, `{labels}['check']`)),
			panel("Ready", TimeSeries, Count, "Whether a check holds: 1, or 0 if it fails at any replica.", query(clickhouse.ViewHealth, `
SELECT $__timeInterval({time}) AS at, {labels}['check'] AS series, min({value}) AS ready
FROM {.} WHERE $__timeFilter({time}) AND {name} = 'tatara_ledger_ready' GROUP BY 1, 2 ORDER BY 1, 2`)),
			panel("Writing to ClickHouse", TimeSeries, Seconds, "Mean time of the stages of writing a batch: storing facts, deriving, storing charges.", mean("tatara_ledger_writer_stage_duration_seconds", `{labels}['stage']`)),
			panel("API", TimeSeries, Seconds, "Mean time to answer, by route. Handoffs and rooms are Postgres, spend is ClickHouse; polls wait by their nature.", mean("tatara_ledger_api_request_duration_seconds", `{labels}['route']`)),
			panel("Postgres", Bars, Count, "Attempts that were repeated because Postgres was away or requests collided, and requests that were given up."+replicas,
				increase(`{name} IN ('tatara_ledger_postgres_retries_total', 'tatara_ledger_postgres_unavailable_total')`, `replaceOne(toString({name}), 'tatara_ledger_postgres_', '')`)),
			panel("Outboxes", TimeSeries, Seconds, "Age of the oldest event that waits to be copied.", gauge(`{name} = 'tatara_ledger_outbox_lag_seconds'`, `{labels}['outbox']`)),
		}},
		{"Alerts", []Panel{
			panel("Alert delivery", Bars, Count, "Alerts that receivers took (repetitions included), requests that failed, alerts that were given up."+replicas,
				increase(`{name} IN ('tatara_ledger_alerts_delivered_total', 'tatara_ledger_alerts_delivery_failures_total', 'tatara_ledger_alerts_dropped_total')`, `concat(replaceOne(toString({name}), 'tatara_ledger_alerts_', ''), ' ', {labels}['receiver'])`)),
			{
				Title: "Alerts of tasks", Kind: Table, Unit: Text, Empty: "no alert", Width: 12,
				Description: "Alerts of ceilings that began or ceased to fire within the range, the latest first.",
				Query: query(clickhouse.ViewAlerts, `
SELECT {time}, {state}, toString({alertname}) AS name, {threshold} / 100 AS ceiling_share, {task}, {summary}, {reason}
FROM {.} WHERE {where} ORDER BY {time} DESC LIMIT 200`),
				Units: map[string]string{"time": Time, "ceiling_share": Percent},
				Tasks: "task",
			},
		}},
	}
	return d
}
