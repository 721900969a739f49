//go:build !linux

package stream

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing here: the kernel has its own idea of when a connection is broken.
func setUserTimeout(syscall.RawConn, time.Duration) {}
