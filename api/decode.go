package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/go-chi/chi/v5"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

const (
	// maxName bounds names, labels and the like in bytes.
	maxName = 256
	// smallBody bounds a request that holds names only.
	smallBody = 64 << 10
)

// rawLimit bounds a request that holds one text of at most n bytes: JSON may
// escape every byte by six, and there is room for the other fields.
func rawLimit(n int) int64 { return 6*int64(n) + smallBody }

// tooLargeHint names the bound that a client can keep to: that of the text, where
// there is one.
func tooLargeHint(limit int64) string {
	if limit > smallBody {
		return fmt.Sprintf("a body may have %d bytes", (limit-smallBody)/6)
	}
	return fmt.Sprintf("a request may have %d bytes", limit)
}

// readJSON decodes the request's body, one JSON object, and returns it as it
// came. Fields that are not known are ignored: clients may send more.
func readJSON(r *http.Request, limit int64, into any) ([]byte, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, &envelope.Error{
			Status: http.StatusUnsupportedMediaType, Field: "Content-Encoding", Message: "is not supported here", Hint: "send the body as it is",
		}
	}
	tooLarge := &envelope.Error{
		Status: http.StatusRequestEntityTooLarge, Field: "body", Message: "is too large",
		Hint: tooLargeHint(limit),
	}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, envelope.BadField("body", "ended early", "send the request again")
	}
	if int64(len(body)) > limit {
		return nil, tooLarge
	}
	switch text := bytes.TrimLeft(body, " \t\r\n"); {
	case len(text) == 0:
		return nil, envelope.BadField("body", "is empty", "send a JSON object")
	case text[0] != '{':
		return nil, envelope.BadField("body", "is not a JSON object", "send one object")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return nil, badJSON(err)
	}
	return body, nil
}

func badJSON(err error) error {
	var wrong *json.SemanticError
	if errors.As(err, &wrong) {
		kind, hint := kindOf(wrong.GoType)
		return envelope.BadField(fieldOf(wrong.JSONPointer), "must be "+kind, hint)
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return envelope.BadField(fieldOf(syntax.JSONPointer), "comes twice", "send it once")
		case errors.Is(err, io.ErrUnexpectedEOF):
			return envelope.BadField("body", "is not JSON: it ends early", "send one whole object")
		}
		return envelope.BadField(fieldOf(syntax.JSONPointer), fmt.Sprintf("is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset), "send one object in UTF-8")
	}
	return envelope.BadField("body", "is not one JSON object", "send one object and nothing after it")
}

// fieldOf is the name of the request's field that an error lies in.
func fieldOf(at jsontext.Pointer) string {
	for name := range at.Tokens() {
		if len(name) > maxName {
			break
		}
		return name
	}
	return "body"
}

func kindOf(t reflect.Type) (kind, hint string) {
	if t != nil && t.Kind() == reflect.Int64 {
		return "a whole number", "write it without quotes, fraction or exponent"
	}
	if t != nil && t.Kind() == reflect.Bool {
		return "true or false", "write it without quotes"
	}
	if t == reflect.TypeFor[wire.Dollars]() || t == reflect.TypeFor[*wire.Dollars]() {
		return "a number of dollars", "such as 12.5"
	}
	return "a string", "write it in double quotes, as JSON has it"
}

// text is a field of a request.
type text struct {
	field, value string
	limit        int // in bytes
	required     bool
}

func checkTexts(fields ...text) error {
	for _, f := range fields {
		if err := f.check(); err != nil {
			return err
		}
	}
	return nil
}

func (f text) check() error {
	switch {
	case f.required && strings.TrimSpace(f.value) == "":
		return envelope.BadField(f.field, "is missing or blank", "send a text that says something")
	case len(f.value) > f.limit:
		return tooLong(f.field, f.limit)
	case strings.ContainsRune(f.value, 0):
		return envelope.BadField(f.field, "contains a NUL character", `leave \u0000 out`)
	}
	return nil
}

// tooLong refuses a text: one that is a body is what made the request too
// large.
func tooLong(field string, limit int) error {
	e := envelope.BadField(field, fmt.Sprintf("is longer than %d bytes", limit), "shorten it")
	if field == "body" {
		e.Status = http.StatusRequestEntityTooLarge
	}
	return e
}

// missing is the answer to an id that cannot be, the same as to one that is
// not.
func missing(what string) error {
	hint := "read the list again: it may be gone"
	switch what {
	case "handoff":
		hint = "start afresh, or see its revisions: it may be deleted"
	case "revision":
		hint = "GET /handoffs/{key}/revisions lists those that are kept"
	case "room":
		hint = "use the id that creating it gave; GET /rooms lists all"
	case "participant", "participant_id":
		hint = "use the id that joining this room gave; after leaving, join again"
	case "target":
		hint = "use the id or the name of a participant that is in the room"
	}
	return &envelope.Error{Status: http.StatusNotFound, Field: what, Message: "not found", Hint: hint}
}

// parseID reads a UUID in its usual form.
func parseID(field, s string) (uuid.UUID, error) {
	const length = 36 // uuid.Parse takes other forms, of other lengths
	id, err := uuid.Parse(s)
	if err != nil || len(s) != length {
		return uuid.Nil, missing(field)
	}
	return id, nil
}

func pathID(r *http.Request, param, field string) (uuid.UUID, error) {
	return parseID(field, chi.URLParam(r, param))
}
