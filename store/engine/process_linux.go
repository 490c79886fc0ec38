package engine

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// ownExecutable is this very program, even after an upgrade replaced its file,
// and even where the engines' user may not enter the folder it lies in.
const ownExecutable = "/proc/self/exe"

func signalOnParentDeath(attr *syscall.SysProcAttr, s syscall.Signal) { attr.Pdeathsig = s }

// commandLine returns the arguments of a process, or nothing when it is gone (or
// a zombie, which holds nothing any more).
func commandLine(pid int) []string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(raw) == 0 {
		return nil
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimRight(raw, "\x00"), []byte{0}) {
		args = append(args, string(arg))
	}
	return args
}
