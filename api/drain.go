package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// What is read of a body that its handler did not want. More than net/http
// reads by itself, which is 256 KiB.
const (
	drainBytes = 256 << 20
	drainTime  = 10 * time.Second
)

// drain reads what is left of a request's body when it has been answered, so
// that a client that reads no answer before it has sent everything gets one: a
// connection closed under it would be reset, and the reason lost.
func drain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body := &watchedBody{ReadCloser: r.Body}
		with := *r
		with.Body = body
		next.ServeHTTP(w, &with)
		// A client that waits for 100 Continue has sent nothing: to read would
		// ask for it.
		if body.ended || !body.begun && r.Header.Get("Expect") != "" {
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, drainBytes))
	})
}

// watchedBody knows how far it was read. Only the handler's goroutine uses it.
type watchedBody struct {
	io.ReadCloser
	begun, ended bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.begun = true
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}
