package receive

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Recorder makes facts durable.
type Recorder interface {
	Record(ctx context.Context, f *usage.Facts) error
}

// Receiver holds what all receivers share. Its handlers are safe for
// concurrent use.
type Receiver struct {
	cfg    Config
	record Recorder
	now    func() time.Time
	room   *semaphore.Weighted // of calls and links
	// pushRoom is apart: a wrapper that is turned away loses what it counted
	// since its last push if it exits, so slow posts of calls may not starve
	// it.
	pushRoom *semaphore.Weighted
	forward  *Forwarder
	log      *slog.Logger
	fields   map[string]string // see callFields
	metrics  *metrics
}

// New returns receivers that hand their facts to record. forward may be nil.
func New(cfg Config, record Recorder, forward *Forwarder, log *slog.Logger, reg prometheus.Registerer) *Receiver {
	return &Receiver{
		cfg: cfg, record: record, forward: forward, log: log.With("component", "receive"),
		now:      func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
		room:     semaphore.NewWeighted(cfg.InFlightBytes - cfg.pushRoom()),
		pushRoom: semaphore.NewWeighted(cfg.pushRoom()),
		fields:   callFields(),
		metrics:  newMetrics(reg),
	}
}

// keep makes facts durable, or answers why it cannot.
func (r *Receiver) keep(ctx context.Context, f *usage.Facts) error {
	err := r.record.Record(ctx, f)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrTooLarge):
		return &envelope.Error{Status: http.StatusRequestEntityTooLarge, Message: "too many facts in one request", Hint: "send smaller requests"}
	case errors.Is(err, journal.ErrFull):
		return r.busy("the journal is full")
	case errors.Is(err, journal.ErrClosed):
		return r.busy("the service is shutting down")
	case errors.Is(err, journal.ErrDisk):
		return r.busy("the journal cannot write")
	default:
		return err
	}
}

func (r *Receiver) busy(why string) error {
	return &envelope.Error{
		Status: http.StatusServiceUnavailable, Message: why, Hint: "send the same request again later: what arrives twice counts once",
		Retry: r.cfg.RetryAfter,
	}
}

// fail answers with err and counts it under a reason.
func (r *Receiver) fail(w http.ResponseWriter, feed string, err error) {
	var refused *refusal
	reason := "internal"
	var e *envelope.Error
	switch {
	case errors.As(err, &refused):
		reason, err = refused.reason, refused.answer
	case errors.As(err, &e) && e.Status == http.StatusServiceUnavailable:
		reason = "busy"
	case errors.As(err, &e) && e.Status == http.StatusRequestEntityTooLarge:
		reason = "too_large"
	case errors.As(err, &e):
		reason = "invalid"
	case errors.Is(err, context.Canceled):
		reason = "canceled"
	}
	r.metrics.rejected.WithLabelValues(feed, reason).Inc()
	if reason == "internal" {
		r.log.Error("facts were not taken", "feed", feed, "request_id", w.Header().Get(envelope.RequestIDHeader), "error", err)
	}
	envelope.Fail(w, err)
}

// refusal is an answer with the reason under which it is counted.
type refusal struct {
	reason string
	answer *envelope.Error
}

func (r *refusal) Error() string { return r.answer.Error() }

func refuse(reason, field, message, hint string) error {
	return &refusal{reason, envelope.BadField(field, message, hint)}
}
