package auth

import (
	"math"
	"net/http"
	"time"

	"github.com/go-chi/httprate"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

const (
	limitRun     = "run"
	limitSubject = "subject"

	// window is what limits count in. A window that has passed counts in part,
	// by how much of it the last minute covers.
	window = time.Minute
	// limitRetry is what a refused client is told. By then the window has slid
	// on by a sixth, and a client that obeys asks six times a minute.
	limitRetry = 10 * time.Second
	// maxRunID is where the id of a run ends to be one, as for X-Request-Id
	// everywhere.
	maxRunID = 128
)

// limits are the rate limits. httprate keeps one number for each key, of this
// window and the one before; a request that is refused adds none.
type limits struct {
	run, subject               *httprate.RateLimiter // nil: no limit
	subjectMax                 int
	refusedRun, refusedSubject func()
}

func newLimits(cfg Config, m *metrics) *limits {
	l := &limits{
		subjectMax:     cfg.SubjectPerMinute,
		refusedRun:     m.limited.WithLabelValues(limitRun).Inc,
		refusedSubject: m.limited.WithLabelValues(limitSubject).Inc,
	}
	silent := httprate.WithResponseHeaders(httprate.ResponseHeaders{})
	if cfg.RunPerMinute > 0 {
		l.run = httprate.NewRateLimiter(cfg.RunPerMinute, window, silent)
	}
	if cfg.SubjectPerMinute > 0 {
		l.subject = httprate.NewRateLimiter(cfg.SubjectPerMinute, window, silent)
	}
	return l
}

// Limit refuses requests beyond the rate limits. It goes behind Authenticate;
// where authentication is not configured it refuses nothing.
func (a *Authenticator) Limit(next http.Handler) http.Handler {
	if !a.enabled {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.limits.exceeded(w, r) {
			envelope.Fail(w, &envelope.Error{
				Status: http.StatusTooManyRequests, Message: "too many requests in the last minute",
				Hint: "wait, and ask less often: let polls wait for messages", Retry: limitRetry,
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// exceeded counts a request, unless it is refused.
//
// A subject that is at its limit is refused first, so that inventing run ids
// takes no memory beyond that limit. What a run is refused does not count for
// the subject, so that one agent that runs wild does not use up what all
// agents may do. A request that names no run counts for its subject alone:
// senders of OTLP name none, and many may share a token.
func (l *limits) exceeded(w http.ResponseWriter, r *http.Request) bool {
	subject := From(r.Context()).Subject
	if l.subject != nil {
		// The counter in memory never fails. Rounded as OnLimit does.
		if _, rate, _ := l.subject.Status(subject); int(math.Round(rate)) >= l.subjectMax {
			l.refusedSubject()
			return true
		}
	}
	run := r.Header.Get(envelope.RequestIDHeader)
	if l.run != nil && run != "" && len(run) <= maxRunID && l.run.OnLimit(w, r, subject+"\n"+run) {
		l.refusedRun()
		return true
	}
	if l.subject != nil && l.subject.OnLimit(w, r, subject) {
		l.refusedSubject()
		return true
	}
	return false
}
