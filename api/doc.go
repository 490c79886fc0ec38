// Package api is the HTTP interface of the ledger: its routes, what every
// request must satisfy, and one file per resource. Handlers decode, make one
// call and encode; errors become answers in one place.
package api
