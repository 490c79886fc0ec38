package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// loopback is the only address that the embedded engines listen on.
const loopback = "127.0.0.1"

// port settles the port of an engine: the configured one, else the one
// remembered from last time if it is still free, else any free one. It writes
// the port down, whichever it is: other processes find the engine by it.
func (f *folder) port(ctx context.Context, name string, configured int, flag string) (int, error) {
	memory := f.join("ports", name)
	port := configured
	if port != 0 {
		if err := portFree(ctx, port, flag); err != nil {
			return 0, err
		}
	} else {
		if port, err := rememberedPort(memory); err == nil && portFree(ctx, port, flag) == nil {
			return port, nil
		}
		var err error
		if port, err = pickPort(ctx); err != nil {
			return 0, err
		}
	}
	if err := writeFile(memory, []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		return 0, fmt.Errorf("remembering the port of %s: %w", name, err)
	}
	return port, nil
}

// ClickHousePortInUse is the port of the ClickHouse that runs, or last ran, on a
// data folder, whoever runs it.
func ClickHousePortInUse(dataDir string) (int, error) {
	return rememberedPort(filepath.Join(dataDir, "ports", "clickhouse"))
}

func rememberedPort(path string) (int, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("reading a remembered port: %w", err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || port <= 0 || port > 65535 {
		return 0, fmt.Errorf("reading a remembered port: %s holds none", path)
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
