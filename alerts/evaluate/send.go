package evaluate

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/szymonrychu/tatara-ledger/alerts"
	"github.com/szymonrychu/tatara-ledger/alerts/deliver"
	"github.com/szymonrychu/tatara-ledger/store"
)

// sending is what was sent of an alert last, and when.
type sending struct {
	episode int64
	state   store.AlertState
	at      time.Time
}

// send sends what is new, and again what was sent long enough ago. By a view that
// is not fresh it sends nothing: another replica may have resolved what it says
// to fire. What was sent before goes on firing for [Config.Hold].
func (e *Evaluator) send() {
	v, now := e.view.Load(), time.Now()
	if now.Sub(v.taken) > e.cfg.Fresh {
		return
	}
	current := make(map[store.AlertID]sending, len(e.sent))
	firing := map[string]int{}
	var due []store.Alert
	for _, of := range v.alerts {
		settled := e.settled(of, v.at)
		for id, a := range of {
			if a.State == store.Firing {
				firing[a.Alert]++
			} else if !settled {
				continue // as what it was sent last
			}
			last := e.sent[id]
			if last.episode != a.Episode || last.state != a.State || now.Sub(last.at) >= e.cfg.Resend {
				last = sending{a.Episode, a.State, now}
				due = append(due, a)
			}
			current[id] = last
		}
	}
	e.sent = current
	slices.SortStableFunc(due, inOrder)
	out := make([]deliver.Alert, 0, len(due))
	for i := range due {
		out = append(out, alertOf(e.cfg.Links, &due[i], now.Add(e.cfg.Hold)))
	}
	e.sender.Send(out...)
	for _, name := range alerts.CeilingAlerts() {
		e.metrics.firing.WithLabelValues(name).Set(float64(firing[name]))
	}
}

// settled reports whether what is resolved of a task may be sent: all of it at
// once, or the end of a lower threshold would be inhibited by a higher one that
// ended a moment later.
func (e *Evaluator) settled(of map[store.AlertID]store.Alert, at time.Time) bool {
	for _, a := range of {
		if a.State == store.Resolved && at.Sub(a.EndsAt) < e.cfg.Settle {
			return false
		}
	}
	return true
}

// inOrder puts a higher threshold that fires before a lower one: Alertmanager does
// not wait with what began long ago, such as during its absence, and would notify
// of the lower before it knows what inhibits it. Of what is resolved the lower
// goes first, and is inhibited until it is over.
func inOrder(a, b store.Alert) int {
	higher := cmp.Compare(b.Threshold, a.Threshold)
	if a.State == store.Resolved {
		higher = -higher
	}
	return cmp.Or(cmp.Compare(a.State, b.State), higher)
}

// alertOf is an alert as receivers know it. hold is until when it fires by
// itself. Everything but hold is the same whichever replica sends it.
func alertOf(links alerts.Options, a *store.Alert, hold time.Time) deliver.Alert {
	dashboard := links.DashboardURL(alerts.TaskDashboard, "var-task="+url.QueryEscape(a.Task))
	out := deliver.Alert{
		Labels: map[string]string{
			"alertname": a.Alert, "severity": severity(a), "system": alerts.System, "component": "tasks",
			"project": a.Project, "repo": a.Repo, "kind": a.Kind, "task": a.Task,
		},
		Annotations: map[string]string{
			"summary": a.Summary, "description": a.Description, "runbook_url": links.RunbookURL(a.Alert),
		},
		StartsAt: a.StartsAt, EndsAt: hold, GeneratorURL: dashboard,
	}
	if dashboard != "" {
		out.Annotations["dashboard_url"] = dashboard
	}
	if a.Threshold > 0 {
		out.Labels["threshold"] = strconv.Itoa(a.Threshold)
	}
	if a.State == store.Resolved {
		out.EndsAt = a.EndsAt
	}
	return out
}

// severity pages for what is over its limit. What has no threshold waits.
func severity(a *store.Alert) string {
	if a.Threshold >= 100 {
		return alerts.Critical
	}
	return alerts.Warning
}

// refusable is how old an event is that a webhook may refuse for good: before,
// the refusal may be that of a receiver that is being set up.
const refusable = 15 * time.Minute

// Tell posts changes to the webhook, each once unless it fails. What the webhook
// goes on refusing is given up, so that it does not hold up what follows.
func (e *Evaluator) Tell(ctx context.Context, events []store.AlertEvent) error {
	for i := range events {
		a := &events[i].Alert
		t := deliver.Transition{ID: events[i].ID.String(), Resolved: a.State == store.Resolved, Alert: alertOf(e.cfg.Links, a, time.Time{})}
		err := e.sender.Webhook().Post(ctx, t)
		if errors.Is(err, deliver.ErrRefused) && time.Since(events[i].At) > refusable {
			e.sender.Webhook().GaveUp()
			e.log.Error("the webhook goes on refusing an event: it is given up", "event", t.ID, "alertname", a.Alert, "task", a.Task, "error", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
