// Package deliver brings alerts that somebody else decided on to Alertmanagers
// and to a webhook. It decides nothing: what fires, when that is sent again and
// what was resolved is the caller's.
//
// # Alertmanagers
//
// [Sender.Send] never blocks. Every Alertmanager has a queue, a loop and a
// retry of its own, so that one that is away delays no other. A queue keeps one
// alert for each set of labels, the newest: what waits while an Alertmanager is
// away grows with the alerts, not with the time, and the end of an alert is not
// lost behind its beginning. An alert leaves the queue when the Alertmanager has
// taken it; it is dropped, and counted, only when the queue is full of other
// alerts (the oldest goes), when the Alertmanager refuses this very alert, or at
// a stop.
//
// An Alertmanager keeps alerts in memory. What it took it forgets when it
// restarts, and what is not repeated by then is resolved at EndsAt. So the
// caller sends all that fires again and again, well inside EndsAt, and at once
// when [Sender.Recovered] says that an Alertmanager came back.
//
// # Webhook
//
// [Webhook.Post] tells of one transition, signed as the Standard Webhooks
// specification says, in the body that Alertmanager's own webhooks have. It
// makes one attempt: whoever calls it keeps the transition until it was taken.
//
// # The client
//
// Alerts are posted by Alertmanager's own generated client of its API v2, the
// one that amtool uses, over the HTTP configuration that all of Prometheus
// shares. Prometheus' notifier was the other choice. It brings Prometheus'
// configuration with its service discovery, and with that the SDKs of three
// clouds: 75 further modules and 8 MB in the binary where the client takes 36
// and 4 MB. And it gives up a batch that an Alertmanager did not take, so that
// an end which falls into an outage would be lost or need a queue before its
// queue.
package deliver
