package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// play calls in fake time what script answers, and says how often and how long.
func play(t *testing.T, cfg client.Config, call func(context.Context, *client.Client) error, script transport) (n int, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.HTTP = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			n++
			return script(r)
		})}
		c := newClient(t, cfg)
		start := time.Now()
		err = call(t.Context(), c)
		took = time.Since(start)
	})
	return n, took, err
}

func get(ctx context.Context, c *client.Client) error { _, err := c.Handoff(ctx, "k"); return err }

func put(ctx context.Context, c *client.Client) error {
	_, err := c.PutHandoff(ctx, wire.HandoffWrite{HandoffKey: "k"}, client.Precondition{})
	return err
}

func poll(ctx context.Context, c *client.Client) error {
	_, err := c.Poll(ctx, "r", "p", client.PollOptions{})
	return err
}

func TestRetries(t *testing.T) {
	t.Parallel()
	always := func(status int, header ...string) transport {
		return func(*http.Request) (*http.Response, error) { return answer(status, "", header...), nil }
	}
	broken := func(err error) transport {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	tests := map[string]struct {
		cfg      client.Config
		call     func(context.Context, *client.Client) error
		script   transport
		n        int
		min, max time.Duration
		want     error
	}{
		"503":              {client.Config{}, get, always(503), 5, 1500 * time.Millisecond, 4500 * time.Millisecond, client.ErrUnavailable},
		"502":              {client.Config{}, put, always(502), 5, 0, time.Minute, client.ErrUnavailable},
		"504":              {client.Config{}, get, always(504), 5, 0, time.Minute, client.ErrUnavailable},
		"408":              {client.Config{}, get, always(408), 5, 0, time.Minute, client.ErrUnavailable},
		"429":              {client.Config{}, get, always(429), 5, 0, time.Minute, client.ErrRateLimited},
		"500":              {client.Config{}, get, always(500), 1, 0, 0, nil},
		"400":              {client.Config{}, put, always(400), 1, 0, 0, client.ErrInvalid},
		"404":              {client.Config{}, get, always(404), 1, 0, 0, client.ErrNotFound},
		"409":              {client.Config{}, put, always(409), 1, 0, 0, client.ErrConflict},
		"412":              {client.Config{}, put, always(412), 1, 0, 0, client.ErrPrecondition},
		"refused":          {client.Config{}, get, broken(syscall.ECONNREFUSED), 5, 1500 * time.Millisecond, 4500 * time.Millisecond, syscall.ECONNREFUSED},
		"certificate":      {client.Config{}, get, broken(&tls.CertificateVerificationError{Err: errors.New("x")}), 1, 0, 0, client.ErrUnavailable},
		"Retry-After":      {client.Config{Attempts: 3}, get, always(503, "Retry-After", "7"), 3, 14 * time.Second, 15 * time.Second, client.ErrUnavailable},
		"far Retry-After":  {client.Config{}, get, always(503, "Retry-After", "3600"), 1, 0, 0, client.ErrUnavailable},
		"attempts":         {client.Config{Attempts: 1}, get, always(503), 1, 0, 0, client.ErrUnavailable},
		"elapsed":          {client.Config{Attempts: 1000, RetryFor: 20 * time.Second}, get, always(503), 0, 12 * time.Second, 20 * time.Second, client.ErrUnavailable},
		"poll that failed": {client.Config{}, poll, always(503), 1, 0, 0, client.ErrUnavailable},
		"poll refused":     {client.Config{}, poll, always(429), 5, 0, time.Minute, client.ErrRateLimited},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, took, err := play(t, tt.cfg, tt.call, tt.script)
			if err == nil || (tt.want != nil && !errors.Is(err, tt.want)) || (tt.n > 0 && n != tt.n) || took < tt.min || took > tt.max {
				t.Errorf("%d attempts in %s: %v", n, took, err)
			}
		})
	}
}

func TestRetryAfterDate(t *testing.T) {
	t.Parallel()
	first := true
	_, took, err := play(t, client.Config{}, get, func(*http.Request) (*http.Response, error) {
		if first {
			first = false
			return answer(429, "", "Retry-After", time.Now().Add(10*time.Second).UTC().Format(http.TimeFormat)), nil
		}
		return answer(200, "{}"), nil
	})
	if err != nil || took < 10*time.Second || took > 11*time.Second {
		t.Errorf("%s, %v", took, err)
	}
}

// TestSameKey: the repetitions of a create carry the same key, two creates do
// not.
func TestSameKey(t *testing.T) {
	t.Parallel()
	var keys []string
	script := func(r *http.Request) (*http.Response, error) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys)%3 != 0 {
			return answer(503, ""), nil
		}
		return answer(200, "{}"), nil
	}
	_, _, err := play(t, client.Config{}, func(ctx context.Context, c *client.Client) error {
		return errors.Join(put(ctx, c), put(ctx, c))
	}, script)
	if err != nil || len(keys) != 6 || keys[0] != keys[1] || keys[1] != keys[2] || keys[3] != keys[5] || keys[2] == keys[3] || keys[0] == "" {
		t.Errorf("%q, %v", keys, err)
	}
}

// TestDeleteTwice: a delete whose first attempt may have done it, and whose
// second finds nothing, is done. One that finds nothing at once is not.
func TestDeleteTwice(t *testing.T) {
	t.Parallel()
	leave := func(ctx context.Context, c *client.Client) error { return c.Leave(ctx, "r", "p") }
	statuses := []int{503, 404}
	script := func(*http.Request) (*http.Response, error) {
		s := statuses[0]
		statuses = statuses[1:]
		return answer(s, ""), nil
	}
	if n, _, err := play(t, client.Config{}, leave, script); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	statuses = []int{429, 404}
	if _, _, err := play(t, client.Config{}, leave, script); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}

// TestCancel: the caller's end ends the waiting.
func TestCancel(t *testing.T) {
	t.Parallel()
	n, took, err := play(t, client.Config{}, func(ctx context.Context, c *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		return get(ctx, c)
	}, func(*http.Request) (*http.Response, error) { return answer(503, ""), nil })
	if n != 1 || took != 50*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("%d, %s, %v", n, took, err)
	}
}
