package receive

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// intake is what one kind of request may take.
type intake struct {
	limit int64 // of the body in bytes
	room  *semaphore.Weighted
	// most is the room that a body of at most n bytes may need.
	most func(n int64) int64
}

// place is the room that a request holds.
type place struct {
	room *semaphore.Weighted
	held int64
}

// shrink gives back what is not needed beyond size.
func (p *place) shrink(size int64) {
	if spare := p.held - size; spare > 0 {
		p.room.Release(spare)
		p.held = size
	}
}

func (p *place) leave() { p.shrink(0) }

func bodyAlone(n int64) int64 { return n }

// body reads a request's body, once there is room for it. The caller leaves
// the place when it no longer needs the body.
func (r *Receiver) body(w http.ResponseWriter, req *http.Request, in intake) ([]byte, *place, error) {
	size := in.limit
	if n := req.ContentLength; n >= 0 && n < in.limit && req.Header.Get("Content-Encoding") == "" {
		size = n
	}
	p := &place{in.room, in.most(size)}
	wait, cancel := context.WithTimeout(req.Context(), r.cfg.AdmissionWait)
	defer cancel()
	if err := p.room.Acquire(wait, p.held); err != nil {
		return nil, nil, r.busy("too many requests in flight")
	}
	b, err := readBody(w, req, in.limit)
	if err != nil {
		p.leave()
		return nil, nil, err
	}
	p.shrink(in.most(int64(len(b))))
	return b, p, nil
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
