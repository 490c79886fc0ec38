// Package e2e tests the program as its users run it: the real binary over the
// real engines, each service with a data folder and ports of its own. What the
// ledger answers is compared with a truth that the test knows exactly, to the
// nano-dollar, and at the end of every test `tatara-ledger verify` must find no
// difference. Of handoffs and rooms, what was acknowledged must be in Postgres,
// with every reader, and in the published events of the ledger, once each; and
// answers must be as the OpenAPI document says.
//
// It holds nothing but tests. Those called Soak run the same for longer, when
// TATARA_LEDGER_SOAK is 1.
package e2e
