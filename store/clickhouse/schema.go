package clickhouse

// The published views by name.
const (
	ViewSpend       = "spend"
	ViewSpendHourly = "spend_hourly"
	ViewTasks       = "tasks"
	ViewRuns        = "runs"
	ViewTurns       = "turns"
	ViewTools       = "tools"
	ViewSources     = "sources"
	ViewChatEvents  = "chat_events"
	ViewHandoffs    = "handoffs"
	ViewRooms       = "rooms"
	ViewAlerts      = "alerts"
	ViewOutcomes    = "outcomes"
	ViewAnnotations = "annotations"
	ViewHealth      = "health"
)

// Columns are the columns of a published view, in their order, and nil of what
// is none. A column has the same meaning in every view that has it. What is
// written against the views takes their columns from here, and a test holds this
// against the engine.
func Columns(view string) []string {
	sums := []string{
		"requests", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
		"cache_write_5m_tokens", "cache_write_1h_tokens", "web_searches", "unpriced_tokens", "reported_nano",
		"computed_nano", "cost_nano", "savings_nano", "approximate", "estimated",
		"cost_usd", "reported_cost_usd", "computed_cost_usd", "cache_savings_usd",
	}
	totals := []string{
		"requests", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "unpriced_tokens",
		"cost_usd", "reported_cost_usd", "computed_cost_usd", "cache_savings_usd", "approximate", "estimated",
	}
	switch view {
	case ViewSpend:
		return append([]string{
			"time", "feed", "project", "repo", "kind", "task", "issue", "run", "session", "model", "effort", "agent",
		}, sums...)
	case ViewSpendHourly:
		return append([]string{"time", "feed", "project", "repo", "kind", "model", "effort", "agent"}, sums...)
	case ViewTasks:
		return append([]string{"task", "project", "repo", "kind", "issue", "first_seen", "last_seen", "runs"}, totals...)
	case ViewRuns:
		return append([]string{
			"run", "pod", "project", "repo", "kind", "task", "issue", "session", "lives", "first_seen", "last_seen", "ended",
		}, totals...)
	case ViewTurns:
		return []string{
			"time", "project", "repo", "kind", "task", "issue", "run", "session", "effort", "result",
			"turns", "timed_turns", "duration_seconds", "duration_bounds", "duration_buckets",
		}
	case ViewTools:
		return []string{"time", "project", "repo", "kind", "task", "issue", "run", "session", "effort", "tool", "outcome", "calls"}
	case ViewSources:
		return []string{"feed", "project", "first_heard", "last_heard"}
	case ViewChatEvents:
		return []string{
			"time", "arrived_at", "id", "action", "actor", "request_id", "project", "repo", "kind", "handoff_key", "revision",
			"age_seconds", "room_id", "participant_id", "message_id", "direct", "bytes", "approximate_tokens", "best_effort",
		}
	case ViewHandoffs:
		return []string{
			"handoff_key", "project", "repo", "kind", "state", "updated_at", "revision", "bytes", "approximate_tokens",
			"written_by", "request_id", "reads", "reads_since_write", "last_read_at",
		}
	case ViewRooms:
		return []string{
			"room_id", "state", "created_at", "archived_at", "last_active_at", "last_message_at", "created_by",
			"participants", "departed", "messages", "direct_messages", "bytes",
		}
	case ViewAlerts:
		return []string{
			"time", "alertname", "state", "task", "project", "repo", "kind", "threshold", "episode", "value", "limit",
			"summary", "starts_at", "reason",
		}
	case ViewOutcomes:
		return []string{"time", "arrived_at", "id", "task", "outcome", "detail"}
	case ViewAnnotations:
		return []string{"time", "time_end", "project", "task", "text", "tags"}
	case ViewHealth:
		return []string{"time", "instance", "name", "labels", "value", "increase"}
	}
	return nil
}
