// Package envelope is the form of every answer of the HTTP API: JSON, and for
// errors one envelope, so that a client reads them all the same way. It
// imports nothing of this module.
package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Error is an error that a client may see. Internal detail is logged, never
// sent.
type Error struct {
	Status  int           `json:"-"`
	Message string        `json:"error"`
	Field   string        `json:"field,omitempty"` // the field at fault
	Hint    string        `json:"hint,omitempty"`  // the remedy
	Retry   time.Duration `json:"-"`               // for Retry-After; zero: none

	RequestID string `json:"request_id,omitempty"`
}

// Error is the message, which begins with the field, as that of an answer does.
func (e *Error) Error() string {
	if e.Field == "" || strings.HasPrefix(e.Message, e.Field+": ") {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// BadField is a 400 that names the field and the remedy.
func BadField(field, message, hint string) *Error {
	return &Error{Status: http.StatusBadRequest, Message: message, Field: field, Hint: hint}
}

// RequestIDHeader joins a request to its logs, in and out.
const RequestIDHeader = "X-Request-Id"

// Fail answers with err. An error that is no [Error] is answered as a 500
// without its text. It returns the status.
func Fail(w http.ResponseWriter, err error) int {
	out := Error{Status: http.StatusInternalServerError, Message: "internal error"}
	var e *Error
	if errors.As(err, &e) {
		out = *e
	}
	out.Message = out.Error()
	out.RequestID = w.Header().Get(RequestIDHeader)
	if out.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(out.Retry.Round(time.Second).Seconds())))
	}
	return JSON(w, out.Status, out)
}

// Appender is an answer that writes its own JSON, as encoding/json would.
type Appender interface{ AppendJSON(b []byte) []byte }

// buffers keeps what answers were written to.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }} //nolint:gochecknoglobals // they belong to no request

// maxKept bounds a buffer that is kept, in bytes.
const maxKept = 1 << 20

// JSON answers with v and returns the status. A client that is gone is no
// error of ours.
func JSON(w http.ResponseWriter, status int, v any) int {
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	if a, ok := v.(Appender); ok {
		b.Write(append(a.AppendJSON(b.AvailableBuffer()), '\n'))
	} else {
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
	if b.Cap() <= maxKept {
		buffers.Put(b)
	}
	return status
}
