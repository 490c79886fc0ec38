package bridge

import (
	"context"
	"fmt"
	"net"
	"os"
)

// childMain is the test binary as a process of its own that only serves; the
// parent reads its address from standard output.
func childMain() int {
	config := testConfig(os.Getenv("BRIDGE_TEST_LIB"), os.Getenv("BRIDGE_TEST_CHILD"))
	config.Address = "127.0.0.1:0"
	config.Until = os.Stdin
	config.Ready = func(a net.Addr) { fmt.Println(a) }
	if err := Run(context.Background(), config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
