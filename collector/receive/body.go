package receive

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// body reads a request's body, at most limit bytes after decompression, once
// there is room for it. The caller calls done when it no longer needs it.
func (r *Receiver) body(w http.ResponseWriter, req *http.Request, limit int64) (b []byte, done func(), err error) {
	need := limit
	if n := req.ContentLength; n >= 0 && n < limit && req.Header.Get("Content-Encoding") == "" {
		need = n
	}
	wait, cancel := context.WithTimeout(req.Context(), r.cfg.AdmissionWait)
	defer cancel()
	if err := r.room.Acquire(wait, need); err != nil {
		return nil, nil, r.busy("too many requests in flight")
	}
	done = func() { r.room.Release(need) }
	if b, err = readBody(w, req, limit); err != nil {
		done()
		return nil, nil, err
	}
	return b, done, nil
}

func readBody(w http.ResponseWriter, req *http.Request, limit int64) ([]byte, error) {
	tooLarge := &envelope.Error{
		Status: http.StatusRequestEntityTooLarge, Message: "body is too large",
		Hint: "the limit is " + byteSize(limit) + " after decompression",
	}
	if req.ContentLength > limit {
		return nil, tooLarge
	}
	raw := io.Reader(http.MaxBytesReader(w, req.Body, limit))
	in := raw
	switch strings.ToLower(req.Header.Get("Content-Encoding")) {
	case "", "identity":
	case "gzip":
		zip, err := gzip.NewReader(in)
		if err != nil {
			return nil, refuse("encoding", "Content-Encoding", "body is not gzip", "compress it, or leave the header out")
		}
		in = zip
	default:
		return nil, &refusal{"encoding", &envelope.Error{
			Status: http.StatusUnsupportedMediaType, Field: "Content-Encoding",
			Message: "encoding is not supported", Hint: "send gzip or no encoding",
		}}
	}
	// One byte more than the limit tells a body that is too large from one
	// that just fits.
	var buf bytes.Buffer
	if n := req.ContentLength; n > 0 && in == raw {
		// There is room for it; ReadFrom wants some beyond the end.
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(in, limit+1))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over) || int64(buf.Len()) > limit:
		return nil, tooLarge
	case err != nil:
		return nil, refuse("truncated", "", "body ended early or is damaged", "send the request again")
	}
	return buf.Bytes(), nil
}

func byteSize(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return itoa(n>>20) + " MiB"
	}
	return itoa(n) + " bytes"
}
