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

// maxCalls bounds one request: in memory a call takes several times its
// shortest text, so CallBytes alone would not bound it.
const maxCalls = 100_000

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
	body, done, err := r.body(w, req, r.cfg.CallBytes)
	if err != nil {
		return answer, err
	}
	defer done()
	// A call takes about 400 bytes; shorter ones grow the list.
	facts := &usage.Facts{Events: make([]usage.Event, 0, len(body)/400+1)}
	c := &callReader{receiver: r, arrived: r.now()}
	err = eachCall(body, func(i int, value []byte) error {
		if i == maxCalls {
			return &envelope.Error{
				Status: http.StatusRequestEntityTooLarge, Message: "too many calls in one request",
				Hint: "nothing of it was kept; send at most " + strconv.Itoa(maxCalls) + " at once",
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
	if several && !jsontext.Value(first).IsValid() && jsontext.Value(body).IsValid() {
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

func eachElement(body []byte, use func(i int, value []byte) error) error {
	broken := func(err error) error {
		return refuse("unparsable", "body", "is not a JSON array: "+jsonError(err), "nothing of it was kept; send whole JSON")
	}
	if !jsontext.Value(body).IsValid() {
		dec := jsontext.NewDecoder(bytes.NewReader(body))
		if err := dec.SkipValue(); err != nil {
			return broken(err)
		}
		_, err := dec.ReadToken()
		return broken(err)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
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

// jsonError is the text of a syntax error without the library's prefix.
func jsonError(err error) string {
	if err == nil || errors.Is(err, io.EOF) {
		return "it ends early"
	}
	return excerpt(strings.TrimPrefix(err.Error(), "jsontext: "))
}
