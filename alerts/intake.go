package alerts

import "time"

func intake() Group {
	const heard = "tatara_ledger_source_last_heard_timestamp_seconds"
	return Group{Name: "tatara-ledger-intake", Rules: []Rule{
		{
			Alert: "SourceSilent", Severity: Warning, Component: "intake",
			// Only a source that spoke at least every ten minutes or so of the last
			// six hours can be missed, so an old one is forgotten by itself; and
			// only while another feed of its project speaks, so an idle project and
			// an idle fleet are quiet.
			Expr: `(
  time() - max by (feed, project) (` + heard + `) > 1800
  and
  max by (feed, project) (changes(` + heard + `[6h])) >= 36
)
and on (project)
time() - max by (project) (` + heard + `) < 300`,
			For:         5 * time.Minute,
			Summary:     `{{ $labels.feed }} of {{ $labels.project }} is silent for {{ $value | humanizeDuration }}`,
			Description: `The feed {{ $labels.feed }} of project {{ $labels.project }} spoke regularly and stopped, while other feeds of the project go on. Spend that only it reports is missing.`,
			Dashboard:   "tatara-ledger-health", Query: `var-project={{ $labels.project | urlquery }}`,
		},
		{
			Alert: "LedgerFactsRejected", Severity: Warning, Component: "intake",
			Expr:        rising("feed, reason", `tatara_ledger_receive_rejected_total{reason!="canceled"}`, "10m"),
			For:         5 * time.Minute,
			Summary:     `{{ $labels.feed }} is refused: {{ $labels.reason }}`,
			Description: `{{ $value | humanize }} requests or calls of the feed {{ $labels.feed }} were refused in 10 minutes, reason {{ $labels.reason }}. What is refused and not sent again is not in the ledger.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerSeriesIgnored", Severity: Warning, Component: "intake",
			Expr:        rising("reason", `tatara_ledger_receive_ignored_series_total`, "10m"),
			For:         15 * time.Minute,
			Summary:     `Pushed series are not kept: {{ $labels.reason }}`,
			Description: `Wrappers push series of their own that this version of the ledger does not know ({{ $labels.reason }}). If a counter was renamed, its spend is missing.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerLabelsFolded", Severity: Warning, Component: "intake",
			Expr:        rising("label", `tatara_ledger_writer_folded_labels_total`, "15m"),
			For:         15 * time.Minute,
			Summary:     `Values of {{ $labels.label }} are folded into "other"`,
			Description: `The label {{ $labels.label }} has more values than its bound. Totals stay exact; the spend of new values shows under "other".`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerFactsConflicting", Severity: Warning, Component: "intake",
			Expr:        `sum(increase(tatara_ledger_writer_conflicts_total[15m])) > 0`,
			For:         5 * time.Minute,
			Summary:     `{{ $value | humanize }} events came under an id that is taken`,
			Description: `Events were sent with the id of another event and other content. The first one counts; the others are dropped.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerFactsSetAside", Severity: Critical, Component: "intake",
			Expr:        rising("reason", `tatara_ledger_writer_set_aside_records_total`, "15m"),
			Summary:     `Acknowledged facts are set aside: {{ $labels.reason }}`,
			Description: `ClickHouse refuses records that were acknowledged. They are kept in a file of the data folder and are missing from every total until they are written.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerJournalFilling", Severity: Warning, Component: "intake",
			Expr: `max by (instance) (tatara_ledger_journal_bytes / tatara_ledger_journal_capacity_bytes) > 0.1
and
max by (instance) (predict_linear(tatara_ledger_journal_bytes[15m], 2 * 3600) / tatara_ledger_journal_capacity_bytes) > 1`,
			For:         5 * time.Minute,
			Summary:     `The journal is {{ $value | humanizePercentage }} full and will be full within 2 hours`,
			Description: `The journal of {{ $labels.instance }} takes in more than the writer drains. When it is full, receivers answer 503 and sources must wait.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerJournalFull", Severity: Critical, Component: "intake",
			Expr: `max by (instance) (tatara_ledger_journal_bytes / tatara_ledger_journal_capacity_bytes) > 0.9
or
max by (instance) (increase(tatara_ledger_journal_full_total[5m])) > 0`,
			For:         time.Minute,
			Summary:     `The journal of {{ $labels.instance }} is full`,
			Description: `Receivers answer 503 with Retry-After, or are about to. Wrappers push totals, so a later push makes good; what a caller does not send again is lost.`,
			Dashboard:   "tatara-ledger-health",
		},
		{
			Alert: "LedgerJournalDamaged", Severity: Critical, Component: "intake",
			Expr: `sum by (instance) (
  increase(tatara_ledger_journal_lost_records_total[1h])
  + increase(tatara_ledger_journal_corrupt_segments_total[1h])
) > 0
or
sum by (instance) (increase(tatara_ledger_journal_disk_errors_total[15m])) > 0`,
			Summary:     `The journal of {{ $labels.instance }} has a broken disk or segment`,
			Description: `Writing or reading the journal failed, or an acknowledged record cannot be read. Damaged segments are kept.`,
			Dashboard:   "tatara-ledger-health",
		},
	}}
}
