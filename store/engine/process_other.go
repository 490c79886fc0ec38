//go:build !linux

package engine

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// ownExecutable is empty: os.Executable knows.
const ownExecutable = ""

// signalOnParentDeath does nothing: there is no such signal here. What outlives
// a killed parent is ended by the next start.
func signalOnParentDeath(*syscall.SysProcAttr, syscall.Signal) {}

// commandLine returns the arguments of a process, or nothing when it is gone.
// Arguments with spaces come apart; whoever compares must allow for it.
func commandLine(pid int) []string {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // answers at once
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// processesIn does not know here.
func processesIn(string) []int { return nil }
