package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// repeatable reports whether a status may be another one the next time. A 500
// is a defect, which repeating does not cure.
func repeatable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// hopeless reports whether an error of the connection stays, however often one
// tries.
func hopeless(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// tries counts the attempts of one call.
type tries struct {
	left     int
	deadline time.Time
	pauses   *backoff.ExponentialBackOff
}

func newTries(cfg *Config) *tries {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = 200*time.Millisecond, 5*time.Second, 2, 0.5
	b.Reset()
	return &tries{left: cfg.Attempts - 1, deadline: time.Now().Add(cfg.RetryFor), pauses: b}
}

// pause waits before the next attempt. It returns the error to give up with.
// What Retry-After demands is waited for in full, and the jitter on top of it:
// everybody who was refused was told the same.
func (t *tries) pause(ctx context.Context, err error) error {
	wait := t.pauses.NextBackOff()
	var e *envelope.Error
	if errors.As(err, &e) {
		wait += e.Retry
	}
	t.left--
	if t.left < 0 || time.Now().Add(wait).After(t.deadline) {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting to try again: %w, after: %w", context.Cause(ctx), err)
	}
}
