package clickhouse

// Published are the views that a restricted account may read: the contract
// with Grafana.
func Published() []string {
	return []string{
		"spend", "spend_hourly", "tasks", "runs", "turns", "tools", "sources",
		"chat_events", "handoffs", "rooms", "alerts", "outcomes", "annotations", "health",
	}
}
