package stream

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/batonrun/baton/transports/budget"
)

// BeginRequest marks the connection as busy: it is not closed to make room for others until AwaitRequest.
func (c *Conn) BeginRequest() { c.busy.Store(true) }

// Hold returns the part of b that the request and its answer hold. EndRequest releases it.
func (c *Conn) Hold(b *budget.Budget) *budget.Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = b.Hold()
	}
	return c.held
}

// Request returns a context that ends with the cause ErrGone when the client disconnects, and with EndRequest. Fasthttp does not
// report disconnects, and reading would consume the next request, so a timer checks the socket.
func (c *Conn) Request(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.request = cancel
	c.watcher = time.AfterFunc(checkInterval, c.checkPeer)
	return ctx
}

// checkInterval is the time between two checks whether the client of a request has disconnected.
const checkInterval = 250 * time.Millisecond

func (c *Conn) checkPeer() {
	gone := hungUp(c.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.request == nil:
	case gone:
		c.request(ErrGone)
	default:
		c.watcher.Reset(checkInterval)
	}
}

// EndRequest releases the memory of the request: after the answer was written, or when a stream has taken the connection over.
func (c *Conn) EndRequest() {
	c.mu.Lock()
	held, request, watch := c.held, c.request, c.watcher
	c.held, c.request, c.watcher = nil, nil, nil
	c.mu.Unlock()
	if held != nil {
		held.Release()
	}
	if request != nil {
		watch.Stop()
		request(nil)
	}
}

// AwaitRequest ends the request and marks the connection as idle.
func (c *Conn) AwaitRequest() {
	c.EndRequest()
	c.idleSince.Store(time.Now().UnixNano())
	c.busy.Store(false)
}

// hungUp reports whether the other end has closed c, as far as that can be seen without reading.
func hungUp(c net.Conn) bool {
	switch c := c.(type) {
	case peer:
		return c.Gone()
	case syscall.Conn:
		raw, err := c.SyscallConn()
		return err == nil && closedByPeer(raw)
	}
	return false
}
