package simulate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// contentType is what client_golang calls its text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// job is the wrapper's name for itself.
const job = "tatara-claude-code-wrapper"

// Request is one request to a receiver.
type Request struct {
	Method, URL string
	Pod, Run    string
	// Life counts the processes of the pod from 0, Push the snapshots of the
	// life from 0; -1 is the DELETE.
	Life, Push int
	// Attempt is 1, and higher for repetitions.
	Attempt int
	Last    bool // the last snapshot of its life
	Copy    bool // sent a second time because of Duplicate
	Body    []byte
}

// Outcome is what became of a request. Status is 0 if no answer came; then Err
// says why.
type Outcome struct {
	Status int
	Err    error

	sent       bool // a connection was there to send it on
	retryAfter time.Duration
}

// Acknowledged reports whether the receiver accepted the request.
func (o Outcome) Acknowledged() bool { return o.Status >= 200 && o.Status < 300 }

// worthRepeating reports whether the same request may be accepted later.
func (o Outcome) worthRepeating() bool {
	return o.Status == 0 || o.Status >= 500 || o.Status == http.StatusRequestTimeout || o.Status == http.StatusTooManyRequests
}

// maybeKept reports whether the receiver may have kept what it did not
// acknowledge.
func (o Outcome) maybeKept() bool {
	if o.Status == 0 {
		return o.sent
	}
	return o.Status >= 500
}

// result is how the push counter of a wrapper calls the outcome.
func (o Outcome) result() string {
	switch {
	case o.Status == 0:
		return pushTransport
	case o.Status >= http.StatusMultipleChoices:
		return pushRejected
	default:
		return pushOK
	}
}

// newClient has one connection per request in flight and receiver. It does not
// follow redirects: to a wrapper they are rejections.
func newClient(cfg *Config) *http.Client {
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: cfg.Concurrency,
			IdleConnTimeout:     time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pushURL writes the identity in the wrapper's order.
func pushURL(base, pod, run string) string {
	return base + "?" + url.Values{"job": {job}, "pod": {pod}, "run_id": {run}}.Encode()
}

// once sends a request once and counts it.
func (r *running) once(ctx context.Context, q Request) Outcome {
	if err := r.gap.wait(ctx); err != nil {
		return Outcome{Err: err}
	}
	if r.cfg.Before != nil {
		r.cfg.Before(ctx, q)
	}
	o := r.do(ctx, q)
	r.count(q, o)
	if r.cfg.After != nil {
		r.cfg.After(q, o)
	}
	return o
}

func (r *running) do(ctx context.Context, q Request) Outcome {
	// A nil body is what a DELETE of the wrapper has.
	var body io.Reader
	if q.Body != nil {
		body = bytes.NewReader(q.Body)
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, body)
	if err != nil {
		return Outcome{Err: fmt.Errorf("making the request: %w", err)}
	}
	if q.Body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if r.decorate != nil {
		r.decorate(req, q)
	}
	return send(r.client, req)
}

// maxAnswer is read of an answer, so that its connection can be used again.
const maxAnswer = 64 << 10

func send(client *http.Client, req *http.Request) Outcome {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	resp, err := client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		return Outcome{Err: err, sent: sent.Load()}
	}
	defer resp.Body.Close()
	// The status is the answer; a body that breaks off changes nothing.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	o := Outcome{Status: resp.StatusCode, sent: true}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		o.retryAfter = time.Duration(min(max(s, 0), 3600)) * time.Second
	}
	return o
}

// repeat sends a request until it is acknowledged, refused for good, patience
// ends or ctx does, beginning with the outcome of the first attempt.
func (r *running) repeat(ctx context.Context, q Request, o Outcome) Outcome {
	if r.cfg.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.cfg.Patience)
		defer cancel()
	}
	first := q.URL
	pause := r.cfg.BackoffMin
	for !o.Acknowledged() && o.worthRepeating() {
		wait := min(max(pause/2+rand.N(pause), o.retryAfter), r.cfg.BackoffMax)
		if sleep(ctx, wait) != nil {
			return o
		}
		pause = min(2*pause, r.cfg.BackoffMax)
		q.Attempt++
		q.URL = r.otherURL(first, q)
		o = r.once(ctx, q)
	}
	return o
}

// sleep waits unless ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
