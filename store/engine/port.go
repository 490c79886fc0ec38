package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// loopback is the only address that the embedded engines listen on.
const loopback = "127.0.0.1"

// port settles the port of an engine: the configured one, else the one
// remembered from last time if it is still free, else any free one.
func (f *folder) port(ctx context.Context, name string, configured int, flag string) (int, error) {
	if configured != 0 {
		return configured, portFree(ctx, configured, flag)
	}
	memory := f.join("ports", name)
	if raw, err := os.ReadFile(memory); err == nil {
		port, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err == nil && port > 0 && portFree(ctx, port, flag) == nil {
			return port, nil
		}
	}
	port, err := pickPort(ctx)
	if err != nil {
		return 0, err
	}
	if err := writeFile(memory, []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		return 0, fmt.Errorf("remembering the port of %s: %w", name, err)
	}
	return port, nil
}

func pickPort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("picking a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// portFree reports a port that is taken, with the flag that changes it.
func portFree(ctx context.Context, port int, flag string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d on %s is in use by another program: stop it, or choose another port with --%s", port, loopback, flag)
	}
	if err != nil {
		return fmt.Errorf("trying port %d on %s (--%s): %w", port, loopback, flag, err)
	}
	return l.Close()
}
