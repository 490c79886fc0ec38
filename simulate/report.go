package simulate

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// Report is how a run went.
type Report struct {
	Planned      int `json:"planned"`      // requests, not counting repetitions
	Requests     int `json:"requests"`     // sent
	Acknowledged int `json:"acknowledged"` // of the requests
	// Rejected are answers other than 2xx, by status.
	Rejected  map[int]int `json:"rejected"`
	Transport int         `json:"transport"` // requests without an answer
	Retried   int         `json:"retried"`   // of the requests: repetitions
	Copies    int         `json:"copies"`    // of the requests: because of Duplicate

	Lives int `json:"lives"`
	// Unacknowledged are lives whose last snapshot was not acknowledged.
	Unacknowledged int `json:"unacknowledged"`
	// Uncertain are those of them of which a receiver may have kept more than
	// it acknowledged: it answered 5xx, or not at all. The truth is then a
	// lower bound.
	Uncertain int `json:"uncertain"`

	Seconds float64 `json:"seconds"`
}

// PerSecond is how many requests were sent per second.
func (r Report) PerSecond() float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Seconds
}

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	lines := fmt.Sprintf("%d requests in %.1f s (%.0f/s): %d acknowledged, %d without an answer, %d retried",
		r.Requests, r.Seconds, r.PerSecond(), r.Acknowledged, r.Transport, r.Retried)
	if r.Copies > 0 {
		lines += fmt.Sprintf(", %d sent twice", r.Copies)
	}
	for _, status := range slices.Sorted(maps.Keys(r.Rejected)) {
		lines += fmt.Sprintf("\n%d answered %d", r.Rejected[status], status)
	}
	if r.Lives > 0 {
		lines += fmt.Sprintf("\n%d lives, %d not acknowledged to their end", r.Lives, r.Unacknowledged)
	}
	if r.Uncertain > 0 {
		lines += fmt.Sprintf("; of %d of them more may have been kept than was acknowledged", r.Uncertain)
	}
	_, err := fmt.Fprintln(w, lines)
	return err
}

func (r *running) count(q Request, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.add(o)
	if q.Attempt > 1 {
		r.report.Retried++
	}
	if q.Copy {
		r.report.Copies++
	}
}

func (r *Report) add(o Outcome) {
	r.Requests++
	switch {
	case o.Acknowledged():
		r.Acknowledged++
	case o.Status == 0:
		r.Transport++
	default:
		r.Rejected[o.Status]++
	}
}

func (r *Report) life(l *life, acked, unsure int) {
	r.Lives++
	if acked < len(l.pushes)-1 {
		r.Unacknowledged++
		if unsure > acked {
			r.Uncertain++
		}
	}
}
