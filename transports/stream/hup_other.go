//go:build !linux

package stream

import "syscall"

// closedByPeer reports whether the other end of a socket has closed it, and nothing is left to read before that.
func closedByPeer(c syscall.RawConn) bool {
	p := probes.Get().(*probe)
	defer probes.Put(p)
	return p.peek(c) == closed
}
