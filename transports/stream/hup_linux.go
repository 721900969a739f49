package stream

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// closedByPeer reports whether the other end of a socket has closed it, also when there is something to read before that.
func closedByPeer(c syscall.RawConn) bool {
	gone := false
	err := c.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return err != nil || gone
}
