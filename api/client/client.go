package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultURL is where a service on the same machine listens.
const DefaultURL = "http://127.0.0.1:8080"

// Config says which ledger to call, and how. The zero value calls the one at
// [DefaultURL] without a token.
type Config struct {
	// BaseURL may have a path, as that of an ingress: rooms and handoffs are
	// looked for at BaseURL + /rooms and BaseURL + /handoffs. Everything else is
	// at BaseURL + /v1, without a path of the chat at its end: /api/v1/chat or
	// /api/v1/chat/<project>.
	BaseURL string
	// Token is asked for the bearer token of each request; nil: none is sent.
	Token TokenSource
	// HTTP sends the requests; nil: a client of its own. Leave its Timeout zero,
	// which would cut long polls off.
	HTTP *http.Client
	// UserAgent is sent with each request.
	UserAgent string
	// RequestID is sent as X-Request-Id with each request, such as a run's id;
	// empty: the service makes one.
	RequestID string

	// Timeout bounds one attempt; zero: a minute, which is more than the 20 s
	// for which the service itself waits for its store. Long polls get what they
	// wait for on top of it.
	Timeout time.Duration
	// Attempts is how often a call is tried at most; zero: 5; 1: never repeated.
	// Pauses grow from 0.2 s to 5 s, so five attempts outlast a restart of about
	// three seconds, or what Retry-After says.
	Attempts int
	// RetryFor is how long after its start a call may be tried again; zero: a
	// minute. A Retry-After beyond it ends the call at once.
	RetryFor time.Duration
	// MaxAnswerBytes bounds an answer's body; zero: 128 MiB, more than the
	// longest handoff takes that a service can be told to keep.
	MaxAnswerBytes int64
}

// Client calls one ledger. It is safe for concurrent use.
type Client struct {
	cfg    Config
	http   *http.Client
	chat   string // base of rooms and handoffs
	ledger string // base of /v1
	broken error  // why nothing can be called
}

// New returns a client of the ledger at base, such as http://127.0.0.1:8080,
// that sends no token. If base is no URL, every call says so.
func New(base string) *Client {
	c, err := NewWithConfig(Config{BaseURL: base})
	if err != nil {
		return &Client{broken: err}
	}
	return c
}

// NewWithConfig returns a client. It calls nothing yet.
func NewWithConfig(cfg Config) (*Client, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultURL
	}
	base, err := checkBase(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = orDefault(cfg.Timeout, time.Minute)
	cfg.Attempts = orDefault(cfg.Attempts, 5)
	cfg.RetryFor = orDefault(cfg.RetryFor, time.Minute)
	cfg.MaxAnswerBytes = orDefault(cfg.MaxAnswerBytes, 128<<20)
	c := &Client{cfg: cfg, http: cfg.HTTP, chat: base, ledger: withoutChat(base)}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	return c, nil
}

// Close lets go of idle connections. The client can be used on.
func (c *Client) Close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// newTransport keeps more connections than the default of two per host, which
// concurrent callers would open and close all the time.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = 64
	return t
}

func orDefault[T int | int64 | time.Duration](v, d T) T {
	if v > 0 {
		return v
	}
	return d
}

// checkBase returns the base without slashes at its end. An error does not
// show what may be a password.
func checkBase(base string) (string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", errors.New("the ledger's URL cannot be read: want one such as " + DefaultURL)
	case u.User != nil:
		return "", errors.New("the ledger's URL holds a user or a password: give a token instead")
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return "", fmt.Errorf("the ledger's URL %q is none: want http(s)://host", base)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("the ledger's URL %q must end with its path", base)
	}
	return strings.TrimRight(base, "/"), nil
}

// chatPath is where an ingress publishes rooms and handoffs.
const chatPath = "/api/v1/chat"

// withoutChat is the base of the routes that are not the chat's.
func withoutChat(base string) string {
	before, after, found := cutLast(base, chatPath)
	if !found {
		return base
	}
	project, isPath := strings.CutPrefix(after, "/")
	if after == "" || (isPath && !strings.Contains(project, "/")) {
		return before
	}
	return base
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
