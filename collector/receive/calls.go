package receive

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const feedCall = string(usage.FeedCall)

// CallsAnswer is the answer to posted calls. Accepted counts duplicates too.
type CallsAnswer struct {
	Accepted int            `json:"accepted"`
	Rejected []RejectedCall `json:"rejected"`
}

// RejectedCall says what is wrong with one call. Index counts from 0 over the
// calls of the request.
type RejectedCall struct {
	Index int    `json:"index"`
	Field string `json:"field,omitempty"`
	Error string `json:"error"`
}

// maxRejected bounds how many refused calls one answer names; all are counted.
const maxRejected = 1000

const (
	// maxCalls bounds one request: in memory a call takes many times its
	// shortest text, so CallBytes alone would not bound it.
	maxCalls = 20_000
	// callRoom is what one decoded call takes beside its text: 400 bytes of
	// event and a string for each of up to thirteen labels of its own.
	callRoom = 1 << 10
	// minCall is the length of the shortest call that can be accepted:
	// {"ts":"2026-11-30T12:00:00Z"}
	minCall = 29
)

// roomForCalls is what a body of n bytes and at most that many calls takes.
func roomForCalls(n, calls int64) int64 { return n + min(calls, maxCalls)*callRoom }

// mostForCalls is the same before it is known how many calls the body holds.
func mostForCalls(n int64) int64 { return roomForCalls(n, n/minCall) }

// Calls receives posted calls: one JSON object, an array, or one object per
// line. Good calls are kept and bad ones named: 200 if any was accepted, 400
// if none was. A call with an id that was seen before counts once.
func (r *Receiver) Calls(w http.ResponseWriter, req *http.Request) {
	answer, err := r.calls(w, req)
	if err != nil {
		r.fail(w, feedCall, err)
		return
	}
	status := http.StatusOK
	if answer.Accepted == 0 {
		status = http.StatusBadRequest
	}
	r.metrics.facts.WithLabelValues(feedCall).Add(float64(answer.Accepted))
	envelope.JSON(w, status, answer)
}

func (r *Receiver) calls(w http.ResponseWriter, req *http.Request) (CallsAnswer, error) {
	answer := CallsAnswer{Rejected: []RejectedCall{}}
	body, place, err := r.body(w, req, intake{r.cfg.CallBytes, r.room, mostForCalls})
	if err != nil {
		return answer, err
	}
	defer place.leave()
	// Every call that is accepted begins with a brace of its own.
	most := int64(bytes.Count(body, []byte("{")))
	place.shrink(roomForCalls(int64(len(body)), most))
	facts := &usage.Facts{Events: make([]usage.Event, 0, min(most, maxCalls))}
	c := &callReader{receiver: r, arrived: r.now()}
	err = eachCall(body, func(i int, value []byte) error {
		if i == maxCalls {
			return &envelope.Error{
				Status: http.StatusRequestEntityTooLarge, Message: "too many calls in one request",
				Hint: "nothing of it was kept; split it into requests of at most " + strconv.Itoa(maxCalls) + " calls",
			}
		}
		var event usage.Event
		if err := c.read(value, &event); err != nil {
			r.reject(&answer, i, err)
			return nil
		}
		facts.Events = append(facts.Events, event)
		return nil
	})
	if err != nil {
		return answer, err
	}
	if len(facts.Events) == 0 && len(answer.Rejected) == 0 {
		return answer, refuse("empty", "body", "holds no call", "send a JSON object, an array of objects or one object per line")
	}
	if len(facts.Events) > 0 {
		if err := r.keep(req.Context(), facts); err != nil {
			return answer, err
		}
	}
	answer.Accepted = len(facts.Events)
	return answer, nil
}

func (r *Receiver) reject(answer *CallsAnswer, i int, err error) {
	var refused *refusal
	if !errors.As(err, &refused) {
		refused = &refusal{"unparsable", envelope.BadField("", err.Error(), "")}
	}
	r.metrics.rejected.WithLabelValues(feedCall, refused.reason).Inc()
	if len(answer.Rejected) < maxRejected {
		text := refused.answer.Message
		if refused.answer.Hint != "" {
			text += ": " + refused.answer.Hint
		}
		answer.Rejected = append(answer.Rejected, RejectedCall{Index: i, Field: refused.answer.Field, Error: text})
	}
}

// eachCall hands the calls of a body to use. A body whose first line is a
// whole JSON value is read by the line, so that a broken line spoils only
// itself; any other is one value or an array, and must be whole.
func eachCall(body []byte, use func(i int, value []byte) error) error {
	// Windows writes a byte order mark; RFC 8259 lets a reader ignore it.
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if len(body) == 0 {
		return nil
	}
	if body[0] == '[' {
		return eachElement(body, use)
	}
	first, _, several := bytes.Cut(body, []byte("\n"))
	lenient := layoutOnly()
	if several && !jsontext.Value(first).IsValid(lenient...) && jsontext.Value(body).IsValid(lenient...) {
		return use(0, body)
	}
	i := 0
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := use(i, line); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

// layoutOnly is how the layout of a body is read: what spoils only the call
// that holds it is left to [callReader.read], which takes neither.
func layoutOnly() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

func eachElement(body []byte, use func(i int, value []byte) error) error {
	broken := func(err error) error {
		return refuse("unparsable", "body", "is not a JSON array: "+jsonError(err), "nothing of it was kept; send whole JSON")
	}
	if !jsontext.Value(body).IsValid(layoutOnly()...) {
		dec := jsontext.NewDecoder(bytes.NewReader(body), layoutOnly()...)
		if err := dec.SkipValue(); err != nil {
			return broken(err)
		}
		_, err := dec.ReadToken()
		return broken(err)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), layoutOnly()...)
	if _, err := dec.ReadToken(); err != nil {
		return broken(err)
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		v, err := dec.ReadValue()
		if err != nil {
			return broken(err)
		}
		if err := use(i, v); err != nil {
			return err
		}
	}
	return nil
}

// fieldOf is the field of an object that a syntax error lies in, if it is known.
func fieldOf(err error) string {
	var at *jsontext.SyntacticError
	if errors.As(err, &at) {
		for name := range at.JSONPointer.Tokens() {
			return excerpt(name)
		}
	}
	return ""
}

// jsonError is the text of a syntax error without the library's prefix.
func jsonError(err error) string {
	if err == nil || errors.Is(err, io.EOF) {
		return "it ends early"
	}
	return excerpt(strings.TrimPrefix(err.Error(), "jsontext: "))
}
