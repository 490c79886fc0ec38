package dashboards

import "github.com/szymonrychu/tatara-ledger/store/clickhouse"

const noHandoffs = "no handoffs"

func handoffsDashboard() Dashboard {
	d := Dashboard{
		UID: UIDHandoffs, Title: "Handoffs and chat", From: "now-7d",
		Description: "Whether notes are written, read and fresh, and whether agents talk.",
		Variables: append(labelVariables()[:3], Variable{
			Name: "stale", Label: "Stale after", Custom: []string{"24", "72", "168", "336", "720"},
			Description: "Hours after its last write from which a handoff counts as stale.",
		}),
	}
	const stale = `{updated_at} < $__toTime - toIntervalHour(toUInt32(${stale:singlequote}))`
	// Handoffs have no model, and their range is their own: what is open now.
	open := ` FROM {.} WHERE {state} = 'open' AND ` + selected(clickhouse.ViewHandoffs)
	events := ` FROM {.} WHERE {where}`
	rooms := ` FROM {.} WHERE $__timeFilter({time}) AND {handoff_key} = ''` // rooms have no labels
	stat := func(title, unit, description, text string) Panel {
		return Panel{Title: title, Kind: Stat, Unit: unit, Empty: noHandoffs, Width: 4, Description: description, Query: query(clickhouse.ViewHandoffs, text)}
	}
	d.Rows = []Row{
		{"Open handoffs", []Panel{
			stat("Open", Count, "Handoffs that are not deleted, whatever the range.", `SELECT count() AS open`+open+` HAVING count() > 0`),
			stat("Stale", Count, "Open ones whose last write is longer ago than the choice above, at the end of the range.", `SELECT countIf(`+stale+`) AS stale`+open+` HAVING count() > 0`),
			stat("Never read", Count, "Open ones of which no read of any revision is known. Reads are best effort.", `SELECT countIf({reads} = 0) AS never_read`+open+` HAVING count() > 0`),
			stat("Unread since the write", Count, "Open ones whose present revision is not known to have been read.", `SELECT countIf({reads_since_write} = 0) AS unread`+open+` HAVING count() > 0`),
			stat("Median age", Seconds, "Time since the last write, of the open ones, at the end of the range.", `SELECT quantileExact(0.5)(greatest(dateDiff('second', {updated_at}, $__toTime), 0)) AS age`+open+` HAVING count() > 0`),
			stat("Median size", Tokens, "Approximate tokens of the open ones: a quarter of the bytes, rounded up.", `SELECT quantileExact(0.5)({approximate_tokens}) AS tokens`+open+` HAVING count() > 0`),
			{
				Title: "Stale or never read", Kind: Table, Unit: Count, Empty: noHandoffs, Height: 10,
				Description: "Open handoffs, the longest untouched first. Tokens are approximate: a quarter of the bytes.",
				Query: query(clickhouse.ViewHandoffs, `
SELECT {handoff_key}, {label:project} AS of_project, {label:repo} AS of_repo, {label:kind} AS of_kind, {updated_at}, {revision},
	{approximate_tokens} AS tokens, {written_by}, {reads}, {reads_since_write}, {last_read_at}`+open+`
	AND (`+stale+` OR {reads} = 0) ORDER BY {updated_at}, {handoff_key} LIMIT 100`),
				Units: map[string]string{"handoff_key": Text, "of_project": Text, "of_repo": Text, "of_kind": Text, "updated_at": Time, "last_read_at": Time, "written_by": Text, "tokens": Tokens},
			},
		}},
		{"Handoffs over time", []Panel{
			{
				Title: "Writes and reads", Kind: Bars, Unit: Count, Empty: noHandoffs,
				Series: "action", Description: "What happened to handoffs. Reads are best effort: a process that dies takes its last second of them along.",
				Query: query(clickhouse.ViewChatEvents, `
SELECT $__timeInterval({time}) AS at, toString({action}) AS action, count() AS events`+events+` AND {handoff_key} != '' GROUP BY 1, 2 ORDER BY 1, 2`),
			},
			{
				Title: "Read after write", Kind: TimeSeries, Unit: Percent, Empty: noHandoffs, Max: 1,
				Description: "Of the revisions written at that time, the share of which a read is known by now. A revision that was replaced unread counts as not read.",
				Query: query(clickhouse.ViewChatEvents, `
SELECT $__timeInterval(written) AS at, avg(was_read) AS read
FROM (
	SELECT minIf({time}, {action} IN ('handoff_written', 'handoff_restored')) AS written,
		countIf({action} = 'handoff_read') > 0 AS was_read, countIf({action} IN ('handoff_written', 'handoff_restored')) AS writes
	FROM {.} WHERE {time} >= $__fromTime AND {handoff_key} != '' AND `+selected(clickhouse.ViewChatEvents)+`
	GROUP BY {handoff_key}, {revision}
)
WHERE writes > 0 AND $__timeFilter(written)
GROUP BY 1 ORDER BY 1`),
			},
			{
				Title: "Size at the write", Kind: TimeSeries, Unit: Tokens, Empty: noHandoffs,
				Description: "Approximate tokens of what was written: a quarter of the bytes, rounded up.",
				Query: query(clickhouse.ViewChatEvents, `
SELECT $__timeInterval({time}) AS at, quantileExact(0.5)({approximate_tokens}) AS median, max({approximate_tokens}) AS largest`+events+`
	AND {action} IN ('handoff_written', 'handoff_restored') GROUP BY 1 ORDER BY 1`),
			},
			{
				Title: "Estimated savings", Kind: Table, Unit: Tokens, Empty: "no handoff was continued from", Width: 12,
				Description: "By project, of the first reads of a revision by another run than its writer: what the writer's run sent per call up to its end, less the handoff. An estimate and an upper bound of one replay; runs of which only counters were pushed have no calls and count as unknown.",
				Query: query(clickhouse.ViewChatEvents, `
SELECT if(of_project = '', '`+None+`', of_project) AS continued, count() AS continuations, countIf(sent IS NULL) AS unknown,
	sum(greatest(sent - tokens, 0)) AS saved_tokens
FROM (
	SELECT reader.of_project AS of_project, reader.tokens AS tokens, writer.sent AS sent
	FROM (
		SELECT {handoff_key} AS key, {revision} AS rev, any({project}) AS of_project,
			argMinIf({request_id}, {time}, {action} IN ('handoff_written', 'handoff_restored')) AS wrote,
			maxIf({approximate_tokens}, {action} IN ('handoff_written', 'handoff_restored')) AS tokens,
			arrayJoin(groupUniqArrayIf({request_id}, {action} = 'handoff_read' AND {request_id} != '')) AS who
		FROM {.} WHERE {where} AND {handoff_key} != '' GROUP BY key, rev
	) AS reader
	LEFT JOIN (
		SELECT {spend.run} AS run, sum({spend.input_tokens} + {spend.cache_read_tokens} + {spend.cache_write_tokens}) / nullIf(sum({spend.requests}), 0) AS sent
		FROM {spend.} WHERE {spend.time} <= $__toTime AND {spend.run} != '' AND {spend.agent} = '' GROUP BY {spend.run}
	) AS writer ON reader.wrote = writer.run
	WHERE reader.who != reader.wrote
)
GROUP BY continued ORDER BY continuations DESC, continued LIMIT 50`),
				Units: map[string]string{"continued": Text, "continuations": Count, "unknown": Count},
			},
		}},
		{"Rooms", []Panel{
			{
				Title: "What happens in rooms", Kind: Bars, Unit: Count, Empty: "no chat",
				Series: "action", Description: "Rooms made and archived, participants come and gone, messages. Rooms have no project, so that the choices above do not apply.",
				Query: query(clickhouse.ViewChatEvents, `
SELECT $__timeInterval({time}) AS at, toString({action}) AS action, count() AS events`+rooms+` GROUP BY 1, 2 ORDER BY 1, 2`),
			},
			{
				Title: "Polls", Kind: TimeSeries, Unit: "reqps", Empty: "no polls",
				Series: "series", Interval: "1m", Description: "Polls that were answered, per second, of all replicas together.",
				Query: rate(`{name} = 'chat_polls_total'`, "'polls'"),
			},
			{
				Title: "Rooms", Kind: Table, Unit: Count, Empty: "no rooms",
				Description: "The rooms that were active last. Names and texts stay in Postgres.",
				Query: query(clickhouse.ViewRooms, `
SELECT toString({room_id}) AS room, {state}, {created_by}, {created_at}, {last_message_at}, {participants}, {departed}, {messages}, {direct_messages}, {bytes}
FROM {.} ORDER BY {last_active_at} DESC, room LIMIT 100`),
				Units: map[string]string{"room": Text, "state": Text, "created_by": Text, "created_at": Time, "last_message_at": Time, "bytes": Bytes},
			},
		}},
	}
	return d
}
