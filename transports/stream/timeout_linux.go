package stream

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel break a connection whose other end has acknowledged nothing for d, so that a ping finds
// machines that vanished.
func setUserTimeout(c syscall.RawConn, d time.Duration) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
}
