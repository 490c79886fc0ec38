package e2e

import "syscall"

// dieWithParent ends a process when the thread that started it ends, so that
// nothing outlives a test binary that is killed or times out.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
