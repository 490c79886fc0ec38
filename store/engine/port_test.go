package engine

import (
	"net"
	"testing"
)

// Whoever finds the data folder in use finds the engine by what is written down.
func TestPortIsWrittenDown(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	if err := makeFolder(f.join("ports"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ClickHousePortInUse(f.path); err == nil {
		t.Error("a port where none was written")
	}
	picked, err := pickPort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, configured := range []int{0, picked, 0} {
		port, err := f.port(t.Context(), "clickhouse", configured, FlagClickHousePort)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ClickHousePortInUse(f.path); err != nil || got != port || (configured != 0 && port != configured) {
			t.Errorf("--clickhouse-port %d: port %d, written %d, %v", configured, port, got, err)
		}
	}
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := f.port(t.Context(), "clickhouse", taken.Addr().(*net.TCPAddr).Port, FlagClickHousePort); err == nil {
		t.Error("a port that is taken is written down")
	}
	write(t, f.join("ports", "clickhouse"), "none\n")
	if _, err := ClickHousePortInUse(f.path); err == nil {
		t.Error("a port is made of nonsense")
	}
}
