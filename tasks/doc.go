// Package tasks holds the totals and the turns of every task of the ledger in
// memory, for those who ask often: the evaluator of ceilings and the API.
//
// It is no second count. Every figure is a sum that ClickHouse made over the
// view spend, or over what the view turns shows; the package only adds up
// stretches of time. It watches the marks that writers leave (see
// docs/architecture.md): a stretch is read again when a mark says that its
// charges or turns changed, and then replaces what was known of it,
// so that late charges, and spend that moves from one task to another, come out
// right. A second [Watcher], on another replica, comes to the same figures.
//
// A [Snapshot] is immutable and shows the ledger as it was at one moment of the
// server's clock. While ClickHouse is away the last one stays, and its age says
// so.
//
// Spend without a task is left out, and so is a task that spent nothing yet: its
// turns show once it does.
package tasks
