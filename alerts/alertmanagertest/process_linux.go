package alertmanagertest

import "syscall"

// endWithParent makes a process end when the test binary is killed, or ends by
// its timeout, without cleaning up.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
