package e2e

import (
	"fmt"
	"io"
	"net"
	"time"
)

// hangUp sends a GET, reads so many bytes of the answer, and resets the
// connection, as the kernel does for a client that is killed.
func hangUp(addr, path string, bytes int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr); err != nil {
		return err
	}
	// It does not matter whether so much comes: an idle room sends nothing.
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, conn, int64(bytes))
	return nil
}
