package health

// Names are the metrics that are kept: those that dashboards of the service
// draw. A histogram is kept as its _sum and its _count. Metrics with many label
// sets are left out: when a source was last heard is in the view sources.
func Names() []string {
	return []string{
		// What came in, and what became of it.
		"tatara_ledger_receive_facts_total",
		"tatara_ledger_receive_rejected_total",
		"tatara_ledger_receive_ignored_series_total",
		"tatara_ledger_writer_facts_total",
		"tatara_ledger_writer_charges_total",
		"tatara_ledger_writer_conflicts_total",
		"tatara_ledger_writer_rederived_runs_total",
		"tatara_ledger_writer_unpriced_tokens_total",
		"tatara_ledger_writer_folded_labels_total",
		"tatara_ledger_writer_set_aside_records_total",

		// How late things are.
		"tatara_ledger_writer_lag_seconds",
		"tatara_ledger_tasks_snapshot_age_seconds",
		"tatara_ledger_fleet_lag_seconds",
		"tatara_ledger_outbox_lag_seconds",
		"tatara_ledger_outbox_pending_rows",
		"tatara_ledger_outbox_events_total",
		"tatara_ledger_outbox_failures_total",

		// The journal.
		"tatara_ledger_journal_bytes",
		"tatara_ledger_journal_capacity_bytes",
		"tatara_ledger_journal_pending_records",
		"tatara_ledger_journal_oldest_record_age_seconds",
		"tatara_ledger_journal_append_duration_seconds",
		"tatara_ledger_journal_fsync_duration_seconds",
		"tatara_ledger_journal_group_records",
		"tatara_ledger_journal_full_total",
		"tatara_ledger_journal_lost_records_total",
		"tatara_ledger_journal_corrupt_segments_total",
		"tatara_ledger_journal_disk_errors_total",

		// Batches and the rollup.
		"tatara_ledger_writer_batches_total",
		"tatara_ledger_writer_attempts_total",
		"tatara_ledger_writer_batch_duration_seconds",
		"tatara_ledger_writer_stage_duration_seconds",
		"tatara_ledger_closer_closed_total",
		"tatara_ledger_closer_errors_total",
		"tatara_ledger_closer_dirty_buckets",

		// ClickHouse and Postgres.
		"tatara_ledger_api_request_duration_seconds",
		"tatara_ledger_ready",
		"tatara_ledger_ready_duration_seconds",
		"tatara_ledger_engine_up",
		"tatara_ledger_engine_restarts_total",
		"tatara_ledger_postgres_connections",
		"tatara_ledger_postgres_connections_in_use",
		"tatara_ledger_postgres_retries_total",
		"tatara_ledger_postgres_unavailable_total",

		// Alerts of tasks.
		"tatara_ledger_alerts_firing",
		"tatara_ledger_alerts_transitions_total",
		"tatara_ledger_alerts_evaluation_duration_seconds",
		"tatara_ledger_alerts_evaluation_failures_total",
		"tatara_ledger_alerts_delivered_total",
		"tatara_ledger_alerts_delivery_failures_total",
		"tatara_ledger_alerts_dropped_total",
		"tatara_ledger_alerts_queue_length",

		// Handoffs and rooms: what the events of the view chat_events lack.
		"chat_polls_total",
		"chat_active_rooms",

		// The samples themselves.
		"tatara_ledger_health_samples_total",
		"tatara_ledger_health_series_omitted",
	}
}

// kept are the labels that a metric keeps, nil: all. Series that differ in
// others are added up: by method and status routes are too many to keep.
func kept(name string) []string {
	if name == "tatara_ledger_api_request_duration_seconds" {
		return []string{"route"}
	}
	return nil
}
