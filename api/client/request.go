package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// request is one call, however often it is sent.
type request struct {
	method string
	url    string // base and escaped path
	query  url.Values
	header http.Header
	body   any // sent as JSON; nil: none
	// create gives the request an Idempotency-Key, so that it can be repeated.
	create bool
	// once: not to be repeated when it may have reached the service.
	once bool
	wait time.Duration // for how long the service may rightly be silent

	text []byte // body as it is sent
}

// segment is one part of a path. What consists of dots would be taken for a
// relative path.
func segment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

func (r *request) prepare() error {
	if len(r.query) > 0 {
		r.url += "?" + r.query.Encode()
	}
	if r.header == nil {
		r.header = http.Header{}
	}
	if r.create {
		r.header.Set("Idempotency-Key", uuid.NewString())
	}
	r.header.Set("Accept", "application/json")
	if r.body == nil {
		return nil
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.body); err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	r.header.Set("Content-Type", "application/json")
	r.text = bytes.TrimSpace(text.Bytes())
	return nil
}

// do calls the service, again if need be, and reads the answer into into,
// unless that is nil.
func (c *Client) do(ctx context.Context, r request, into any) error {
	if c.broken != nil {
		return c.broken
	}
	if err := r.prepare(); err != nil {
		return err
	}
	tries := newTries(&c.cfg)
	doubt := false // an earlier attempt may have done what we ask for
	for {
		a := c.attempt(ctx, &r, into)
		if a.err == nil {
			return nil
		}
		if doubt && r.method == http.MethodDelete && errors.Is(a.err, ErrNotFound) {
			return nil // that attempt did
		}
		doubt = doubt || a.reached
		if !a.again || (r.once && a.reached) {
			return a.err
		}
		if err := tries.pause(ctx, a.err); err != nil {
			return err
		}
	}
}

// attempt is how one attempt ended.
type attempt struct {
	err     error
	again   bool // it makes sense to repeat it
	reached bool // the service may have done what was asked
}

// attempt sends the request, twice if the service refuses the token and there
// is another.
func (c *Client) attempt(ctx context.Context, r *request, into any) attempt {
	if c.cfg.Token == nil {
		return c.send(ctx, r, "", into)
	}
	token, err := c.cfg.Token.Token(ctx, "")
	if err != nil {
		return tokenFailure(err)
	}
	a := c.send(ctx, r, token, into)
	if !errors.Is(a.err, ErrUnauthorized) {
		return a
	}
	fresh, err := c.cfg.Token.Token(ctx, token)
	if err != nil {
		return tokenFailure(err)
	}
	if fresh == token {
		return a
	}
	return c.send(ctx, r, fresh, into)
}

func tokenFailure(err error) attempt {
	return attempt{err: fmt.Errorf("%w: %w", ErrToken, err), again: errors.Is(err, ErrUnavailable)}
}

func (c *Client) send(ctx context.Context, r *request, token string, into any) attempt {
	sending, cancel := context.WithTimeout(ctx, c.cfg.Timeout+r.wait)
	defer cancel()
	var reached atomic.Bool
	sending = httptrace.WithClientTrace(sending, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }})
	req, err := http.NewRequestWithContext(sending, r.method, r.url, r.reader())
	if err != nil {
		return attempt{err: fmt.Errorf("preparing a request: %w", err)}
	}
	req.Header = r.header.Clone()
	c.sign(req, token)
	resp, err := c.http.Do(req)
	if err != nil {
		return c.cutOff(ctx, r, err, reached.Load())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.MaxAnswerBytes+1))
	if err != nil {
		return c.cutOff(ctx, r, fmt.Errorf("reading its answer: %w", err), true)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		refused := refusalOf(resp, body, time.Now())
		return attempt{err: refused, again: repeatable(resp.StatusCode), reached: resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusRequestTimeout}
	}
	return attempt{err: c.read(resp, body, into), reached: true}
}

// reader is the body to send. That of a request to send once is empty but not
// absent: without one, net/http itself repeats a GET whose connection breaks.
func (r *request) reader() io.Reader {
	switch {
	case r.text != nil:
		return bytes.NewReader(r.text)
	case r.once:
		return io.NopCloser(strings.NewReader(""))
	}
	return nil
}

func (c *Client) sign(req *http.Request, token string) {
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if c.cfg.RequestID != "" {
		req.Header.Set(envelope.RequestIDHeader, c.cfg.RequestID)
	}
	if c.cfg.UserAgent != "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}
}

// cutOff is an attempt without an answer.
func (c *Client) cutOff(ctx context.Context, r *request, err error, reached bool) attempt {
	if ctx.Err() != nil { // the caller gave up
		return attempt{err: fmt.Errorf("calling the ledger: %w", err), reached: reached}
	}
	if reached && r.once {
		err = fmt.Errorf("%w (not repeated: it may have been done)", err)
	}
	return attempt{err: &unreachable{err}, again: !hopeless(err), reached: reached}
}

var errAnswerTooLong = errors.New("it is over the limit")

func (c *Client) read(resp *http.Response, body []byte, into any) error {
	if int64(len(body)) > c.cfg.MaxAnswerBytes {
		return fmt.Errorf("reading the ledger's answer: %w of %d bytes; ask for less at once", errAnswerTooLong, c.cfg.MaxAnswerBytes)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading the ledger's answer (%s of type %q): %w; is this the URL of a ledger?", resp.Status, resp.Header.Get("Content-Type"), err)
	}
	return nil
}
