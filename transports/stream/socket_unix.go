//go:build unix

package stream

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// probing is whether sockets can be looked at without waiting.
const probing = true

// probe looks at sockets without waiting for them. It is used by one goroutine.
type probe struct {
	buf    [16 << 10]byte
	gone   bool
	thrown bool // something was thrown away
	out    []byte
	sent   outcome
	in     input
	read   func(fd uintptr)
	look   func(fd uintptr)
	write  func(fd uintptr)
	begin  func(fd uintptr)
	n      int // bytes sent
}

// input is the state of a socket's input.
type input uint8

const (
	nothing input = iota
	waiting
	closed
)

// outcome is the result of a send.
type outcome uint8

const (
	sent outcome = iota
	full
	broken
)

var probes = sync.Pool{New: func() any {
	p := new(probe)
	p.read, p.look, p.write, p.begin = p.recvFrom, p.peekAt, p.sendTo, p.sendSome
	return p
}}

// left reports whether the other end has closed the connection. It discards input: a stream's client has nothing to send, and
// the end of a connection cannot be seen behind unread bytes.
func (p *probe) left(c syscall.RawConn) bool {
	p.gone = true
	err := c.Control(p.read)
	return err != nil || p.gone
}

func (p *probe) recvFrom(fd uintptr) {
	p.gone, p.thrown = false, false
	for range 64 {
		n, _, err := unix.Recvfrom(int(fd), p.buf[:], unix.MSG_DONTWAIT)
		if err == unix.EAGAIN || err == unix.EINTR {
			return
		}
		if err != nil || n == 0 {
			p.gone = true
			return
		}
		p.thrown = true
	}
}

// peek returns the state of the input without reading it.
func (p *probe) peek(c syscall.RawConn) input {
	p.in = closed
	if c.Control(p.look) != nil {
		return closed
	}
	return p.in
}

func (p *probe) peekAt(fd uintptr) {
	n, _, err := unix.Recvfrom(int(fd), p.buf[:1], unix.MSG_DONTWAIT|unix.MSG_PEEK)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		p.in = nothing
	case err != nil || n == 0:
		p.in = closed
	default:
		p.in = waiting
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
	case err != nil || n < len(p.out): // a partial ping cannot be undone
		p.sent = broken
	default:
		p.sent = sent
	}
}

// start sends as much of b as it can without blocking, and returns how much that was.
func (p *probe) start(c syscall.RawConn, b []byte) int {
	p.out, p.n = b, 0
	_ = c.Control(p.begin) // the caller's write of the rest returns the error
	p.out = nil
	return p.n
}

func (p *probe) sendSome(fd uintptr) {
	if n, err := unix.Write(int(fd), p.out); err == nil { // Go's sockets never block
		p.n = n
	}
}
