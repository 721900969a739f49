package stream

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout has the kernel break a connection whose other end has acknowledged nothing for d: a ping to
// a machine that vanished is how that is found out.
func setUserTimeout(c syscall.RawConn, d time.Duration) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
}
