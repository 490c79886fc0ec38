package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// What the service may answer, for errors.Is. The error holds the
// *envelope.Error with the details, for errors.As.
var (
	// ErrInvalid: the request is wrong; its field and hint say what. 400, 415, 422.
	ErrInvalid = errors.New("invalid request")
	// ErrUnauthorized: the token is missing, expired or of someone else. 401.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden: the token does not allow this. 403.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound: there is no such handoff, room, participant or task. 404.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the room is archived, or the key belongs to another project,
	// or the like. 409.
	ErrConflict = errors.New("conflict")
	// ErrPrecondition: the handoff is not at the revision that was demanded. 412.
	ErrPrecondition = errors.New("precondition failed")
	// ErrTooLarge: the body is over the service's limit. 413.
	ErrTooLarge = errors.New("too large")
	// ErrRateLimited: too many requests, after all repetitions. 429.
	ErrRateLimited = errors.New("rate limited")
	// ErrToken: there is no token to send, so that the service was not called.
	ErrToken = errors.New("no token")
	// ErrUnavailable: no answer, or none but that it is overloaded or away,
	// after all repetitions. A write may or may not have happened. 408, 502, 503,
	// 504, and errors of the connection.
	ErrUnavailable = errors.New("unavailable")
)

// sentinelOf is nil for statuses that have none, such as 500.
func sentinelOf(status int) error {
	switch status {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return ErrInvalid
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case http.StatusForbidden:
		return ErrForbidden
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusConflict:
		return ErrConflict
	case http.StatusPreconditionFailed:
		return ErrPrecondition
	case http.StatusRequestEntityTooLarge:
		return ErrTooLarge
	case http.StatusTooManyRequests:
		return ErrRateLimited
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ErrUnavailable
	}
	return nil
}

// refusal is an error that the service answered with.
type refusal struct{ answer *envelope.Error }

// Error is for people: what is wrong with which field, and the remedy.
func (r *refusal) Error() string {
	a := r.answer
	text := fmt.Sprintf("the ledger answered %d: %s", a.Status, a.Error())
	if a.Hint != "" {
		text += "; " + a.Hint
	}
	if a.RequestID != "" {
		text += " (request " + a.RequestID + ")"
	}
	return text
}

func (r *refusal) Unwrap() []error {
	if s := sentinelOf(r.answer.Status); s != nil {
		return []error{s, r.answer}
	}
	return []error{r.answer}
}

// unreachable is an error of the connection.
type unreachable struct{ err error }

func (u *unreachable) Error() string   { return "calling the ledger: " + u.err.Error() }
func (u *unreachable) Unwrap() []error { return []error{ErrUnavailable, u.err} }

// refusalOf reads an answer that is no success. What stands between us and the
// service may answer in any form.
func refusalOf(resp *http.Response, body []byte, now time.Time) *refusal {
	e := &envelope.Error{}
	if json.Unmarshal(body, e) != nil || e.Message == "" {
		*e = envelope.Error{Message: foreignText(resp, body)}
		var posted wire.Posted // an answer that no posted fact was good
		if json.Unmarshal(body, &posted) == nil && len(posted.Rejected) > 0 {
			*e = envelope.Error{Field: posted.Rejected[0].Field, Message: posted.Rejected[0].Error}
		}
	}
	e.Status = resp.StatusCode
	e.Retry = retryAfter(resp.Header.Get("Retry-After"), now)
	if e.RequestID == "" {
		e.RequestID = resp.Header.Get(envelope.RequestIDHeader)
	}
	return &refusal{e}
}

// foreignText is the first line of a plain answer, or the name of its status:
// nobody wants to read a proxy's HTML.
func foreignText(resp *http.Response, body []byte) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	line := firstLine(string(body))
	if kind == "text/html" || line == "" || line[0] == '<' {
		return http.StatusText(resp.StatusCode)
	}
	return line
}

// firstLine is what of a foreign text is fit to be shown.
func firstLine(text string) string {
	const most = 300
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
	return strings.ToValidUTF8(line[:min(len(line), most)], "")
}

// retryAfter reads seconds or a date; zero: none, or no future one.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(v); err == nil && n > 0 {
		const century = 100 * 365 * 24 * time.Hour
		return min(time.Duration(n), century/time.Second) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
