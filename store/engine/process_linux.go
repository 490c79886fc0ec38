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

// processesIn lists the processes whose working folder is dir, as far as we may
// know.
func processesIn(dir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if cwd, err := os.Readlink("/proc/" + entry.Name() + "/cwd"); err == nil && cwd == dir {
			pids = append(pids, pid)
		}
	}
	return pids
}
