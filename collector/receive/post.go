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

// PostAnswer is the answer to posted calls, outcomes or annotations. Accepted
// counts duplicates too.
type PostAnswer struct {
	Accepted int        `json:"accepted"`
	Rejected []Rejected `json:"rejected"`
}

// Rejected says what is wrong with one of those that were posted. Index counts
// from 0 over all of the request.
type Rejected struct {
	Index int    `json:"index"`
	Field string `json:"field,omitempty"`
	Error string `json:"error"`
}

// maxRejected bounds how many that were refused one answer names; all are
// counted.
const maxRejected = 1000

const (
	// maxPosted bounds one request: in memory a call takes many times its
	// shortest text, so CallBytes alone would not bound it.
	maxPosted = 20_000
	// postedRoom is what one decoded call takes beside its text: 400 bytes of
	// event and a string for each of up to thirteen labels of its own. An
	// annotation with all of its tags takes as much, an outcome less.
	postedRoom = 1 << 10
	// minPosted is the length of the shortest call that can be accepted, and
	// less than that of anything else: {"ts":"2026-11-30T12:00:00Z"}
	minPosted = 29
)

// roomForPosted is what a body of n bytes and at most that many facts takes.
func roomForPosted(n, facts int64) int64 { return n + min(facts, maxPosted)*postedRoom }

// mostForPosted is the same before it is known how many facts the body holds.
func mostForPosted(n int64) int64 { return roomForPosted(n, n/minPosted) }

// posting is one kind of facts that are posted as JSON objects.
type posting[T any] struct {
	feed   string // under which they are counted
	plural string
	// reader returns what reads one object after the other, each over whatever a T holds.
	// Its errors name the field.
	reader func() func(value []byte, to *T) error
	facts  func([]T) *usage.Facts
}

// post receives one JSON object, an array, or one object per line, and answers.
// Good ones are durable when it answers, bad ones are named: 200 if any was
// accepted, 400 if none was.
func post[T any](r *Receiver, w http.ResponseWriter, req *http.Request, p posting[T]) {
	answer, err := p.take(r, w, req)
	if err != nil {
		r.fail(w, p.feed, err)
		return
	}
	status := http.StatusOK
	if answer.Accepted == 0 {
		status = http.StatusBadRequest
	}
	r.metrics.facts.WithLabelValues(p.feed).Add(float64(answer.Accepted))
	envelope.JSON(w, status, answer)
}

func (p *posting[T]) take(r *Receiver, w http.ResponseWriter, req *http.Request) (PostAnswer, error) {
	answer := PostAnswer{Rejected: []Rejected{}}
	body, place, err := r.body(w, req, intake{r.cfg.CallBytes, r.room, mostForPosted})
	if err != nil {
		return answer, err
	}
	defer place.leave()
	// Every one that is accepted begins with a brace of its own.
	most := int64(bytes.Count(body, []byte("{")))
	place.shrink(roomForPosted(int64(len(body)), most))
	good, read := make([]T, 0, min(most, maxPosted)), p.reader()
	err = eachObject(body, func(i int, value []byte) error {
		if i == maxPosted {
			return &envelope.Error{
				Status: http.StatusRequestEntityTooLarge, Message: "too many " + p.plural + " in one request",
				Hint: "nothing of it was kept; split it into requests of at most " + strconv.Itoa(maxPosted) + " " + p.plural,
			}
		}
		n := len(good)
		good = append(good, *new(T))
		if err := read(value, &good[n]); err != nil {
			good = good[:n]
			r.reject(p.feed, &answer, i, err)
		}
		return nil
	})
	if err != nil {
		return answer, err
	}
	if len(good) == 0 && len(answer.Rejected) == 0 {
		return answer, refuse("empty", "body", "holds no "+p.plural, "send a JSON object, an array of objects or one object per line")
	}
	if len(good) > 0 {
		if err := r.keep(req.Context(), p.facts(good)); err != nil {
			return answer, err
		}
	}
	answer.Accepted = len(good)
	return answer, nil
}

func (r *Receiver) reject(feed string, answer *PostAnswer, i int, err error) {
	var refused *refusal
	if !errors.As(err, &refused) {
		refused = &refusal{"unparsable", envelope.BadField("", err.Error(), "")}
	}
	r.metrics.rejected.WithLabelValues(feed, refused.reason).Inc()
	if len(answer.Rejected) < maxRejected {
		text := refused.answer.Message
		if refused.answer.Hint != "" {
			text += ": " + refused.answer.Hint
		}
		answer.Rejected = append(answer.Rejected, Rejected{Index: i, Field: refused.answer.Field, Error: text})
	}
}

// eachObject hands the objects of a body to use. A body whose first line is a
// whole JSON value is read by the line, so that a broken line spoils only
// itself; any other is one value or an array, and must be whole.
func eachObject(body []byte, use func(i int, value []byte) error) error {
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

// layoutOnly is how the layout of a body is read: what spoils only the
// object that holds it is left to [objectReader.object], which takes neither.
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
