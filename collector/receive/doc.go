// Package receive turns HTTP requests into facts: the pushes of wrappers, calls
// posted as JSON and links of runs.
//
// A success is answered only when the facts are durable in the journal. Bad
// input gets a 4xx that names the field; memory per request and over all
// requests is bounded; whatever is refused is counted with a reason.
package receive
