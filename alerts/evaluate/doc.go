// Package evaluate judges tasks by their ceilings and raises what they cross.
//
// Every replica evaluates, and none leads. What a task spent comes from the
// shared snapshot of the ledger; what fires is in Postgres, where a threshold
// that is crossed is a row which one replica inserts, by the state that all of
// them see. Every replica then sends what Postgres says: Alertmanager takes the
// same alert from several senders as one.
//
// Each second:
//
//	view of Postgres ─┐
//	                  ├→ judge what changed → change alerts in Postgres ─┬→ send to Alertmanager
//	snapshot ─────────┘                                                  └→ outbox → ledger, webhook
//
// Without a fresh snapshot nothing is judged: what fires goes on firing, and
// the time of the last evaluation, a metric, says that the evaluator is blind.
package evaluate
