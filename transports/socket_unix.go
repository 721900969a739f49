//go:build unix

package transports

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// probe looks at sockets without waiting for them. It is used by one goroutine.
type probe struct {
	buf   [16 << 10]byte
	gone  bool
	out   []byte
	sent  outcome
	peek  func(fd uintptr)
	write func(fd uintptr)
}

// outcome is what became of a send.
type outcome uint8

const (
	sent outcome = iota
	full
	broken
)

var probes = sync.Pool{New: func() any {
	p := new(probe)
	p.peek, p.write = p.recvFrom, p.sendTo
	return p
}}

// left reports whether the other end has closed the connection. What it sent meanwhile is thrown away:
// nobody listens to a stream's client, and behind unread bytes the end of a connection cannot be seen.
func (p *probe) left(c syscall.RawConn) bool {
	p.gone = true
	err := c.Control(p.peek)
	return err != nil || p.gone
}

func (p *probe) recvFrom(fd uintptr) {
	p.gone = false
	for range 64 {
		n, _, err := unix.Recvfrom(int(fd), p.buf[:], unix.MSG_DONTWAIT)
		if err == unix.EAGAIN || err == unix.EINTR {
			return
		}
		if err != nil || n == 0 {
			p.gone = true
			return
		}
	}
}

// send sends all of b or nothing.
func (p *probe) send(c syscall.RawConn, b []byte) outcome {
	p.out, p.sent = b, broken
	if c.Control(p.write) != nil {
		return broken
	}
	return p.sent
}

func (p *probe) sendTo(fd uintptr) {
	n, err := unix.SendmsgN(int(fd), p.out, nil, nil, unix.MSG_DONTWAIT)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		p.sent = full
	case err != nil || n < len(p.out): // half a ping cannot be taken back
		p.sent = broken
	default:
		p.sent = sent
	}
}
