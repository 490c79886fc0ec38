// Package engine runs the embedded engines: a ClickHouse and a Postgres, real
// ones, as child processes on loopback, with all data below one folder. They
// serve a laptop, the tests and CI; where addresses of a ClickHouse and a
// Postgres are configured, nothing here is used.
//
// What it guarantees:
//
//   - Start returns when both engines answer, or stops what it had started.
//   - A child that dies is started again on the same port over the same data.
//   - A child does not outlive its parent. On Linux the kernel sees to it, even
//     after kill -9; elsewhere the next start ends what was left behind.
//   - One process owns a data folder; a second one is refused.
//   - Passwords are random, live in files of mode 0600, and are never printed.
//   - Engines never run as root: when the caller is root, they run as another
//     user, who owns their data.
//
// What it is not: a way to run either engine in production, across machines, or
// with another major version over existing data. It does no backups.
package engine
