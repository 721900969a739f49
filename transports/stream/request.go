package stream

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/batonrun/baton/transports/budget"
)

// Work is called when the request that has come is going to be answered: from now on, until Rest, its connection is not one of
// those that are closed to make room for others.
func (c *Conn) Work() { c.busy.Store(true) }

// Hold is what the request that is being answered and its answer hold of b, given back with Rest.
func (c *Conn) Hold(b *budget.Budget) *budget.Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = b.Hold()
	}
	return c.held
}

// Request returns a context that ends with the cause ErrGone once the client has left, and with Rest. Fasthttp has no word for
// that: a timer looks at the socket, as one that reads would take what belongs to the next request.
func (c *Conn) Request(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.request = cancel
	c.watch = time.AfterFunc(glance, c.glance)
	return ctx
}

// glance is how often it is looked whether the client of a request has left.
const glance = 250 * time.Millisecond

func (c *Conn) glance() {
	gone := hungUp(c.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.request == nil:
	case gone:
		c.request(ErrGone)
	default:
		c.watch.Reset(glance)
	}
}

// Rest is called when the answer was written, and when somebody has taken the connection over: nothing is left of the request.
func (c *Conn) Rest() {
	c.mu.Lock()
	held, request, watch := c.held, c.request, c.watch
	c.held, c.request, c.watch = nil, nil, nil
	c.mu.Unlock()
	if held != nil {
		held.Release()
	}
	if request != nil {
		watch.Stop()
		request(nil)
	}
}

// Idle is called when the connection waits for its next request.
func (c *Conn) Idle() {
	c.Rest()
	c.rest.Store(time.Now().UnixNano())
	c.busy.Store(false)
}

// hungUp reports whether the other end of c has closed it, as far as that can be told without reading.
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
