//go:build !linux

package alertmanagertest

import "syscall"

// endWithParent is known to Linux alone.
func endWithParent() *syscall.SysProcAttr { return nil }
