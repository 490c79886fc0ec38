package api

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// Listener gives the errors of net/http itself our envelope. What it cannot read
// as a request, such as a path that is badly escaped, it refuses before any
// handler, in plain text, and has no hook for that. It writes such a refusal in
// one piece, which is told from all that handlers write: their answers have more
// headers.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept is that of net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return conn{tcp}, err // with all that net/http asks a connection for
	}
	return c, err
}

type conn struct{ *net.TCPConn }

// Write is that of net.Conn.
func (c conn) Write(b []byte) (int, error) {
	status, reason, ok := unread(b)
	if !ok {
		return c.TCPConn.Write(b)
	}
	if _, err := c.TCPConn.Write(refusalOf(status, reason)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unread reads an answer of net/http to what is no request. Its body repeats
// what the status line says, or gives the reason alone.
func unread(b []byte) (status int, reason string, ok bool) {
	const start, middle = "HTTP/1.1 ", "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	const longest = 512
	if len(b) > longest || !bytes.HasPrefix(b, []byte(start)) {
		return 0, "", false
	}
	line, body, ok := strings.Cut(string(b[len(start):]), middle)
	code, _, _ := strings.Cut(line, " ")
	status, err := strconv.Atoi(code)
	if !ok || err != nil || status < http.StatusBadRequest || strings.ContainsAny(line+body, "\r\n") {
		return 0, "", false
	}
	name := strconv.Itoa(status) + " " + http.StatusText(status)
	return status, strings.TrimPrefix(strings.TrimPrefix(body, name), ": "), true
}

// refusalOf is the answer to what is no request.
func refusalOf(status int, reason string) []byte {
	e := envelope.Error{
		Status: status, Field: "request", Message: "is not HTTP", RequestID: rand.Text(),
		Hint: "percent-encode the path, % itself as %25; send the headers that HTTP demands",
	}
	if reason != "" {
		e.Message += ": " + reason
	}
	if status == http.StatusRequestHeaderFieldsTooLarge {
		e.Message, e.Hint = "has headers that are too large", "send fewer or shorter ones"
	}
	e.Message = e.Error()
	body, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("an error of strings has no JSON: %v", err))
	}
	var out bytes.Buffer
	answer := &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header: http.Header{
			"Content-Type":           {"application/json; charset=utf-8"},
			"X-Content-Type-Options": {"nosniff"},
			envelope.RequestIDHeader: {e.RequestID},
		},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	_ = answer.Write(&out) // a buffer takes everything
	return out.Bytes()
}
