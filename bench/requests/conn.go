package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// conn is one connection of HTTP that is kept. It does less than a client of
// net/http, whose work, on the service's cores, would be a third of what is
// measured; pgbench does as little.
type conn struct {
	net.Conn
	in      *bufio.Reader
	request []byte // reused
	body    bytes.Buffer
}

func dial(ctx context.Context, addr string) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

// ask sends a request and checks that its answer is a success with want in it.
func (c *conn) ask(request []byte, want string) error {
	if err := c.send(request); err != nil {
		return err
	}
	return c.receive(want)
}

func (c *conn) send(request []byte) error {
	c.request = request
	_, err := c.Write(request)
	return err
}

func (c *conn) receive(want string) error {
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	defer resp.Body.Close()
	c.body.Reset()
	if _, err := io.Copy(&c.body, resp.Body); err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices || !bytes.Contains(c.body.Bytes(), []byte(want)) {
		return fmt.Errorf("%s: %.300s", resp.Status, c.body.String())
	}
	return nil
}
