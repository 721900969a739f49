package stream

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/transports/budget"
)

// Conn is a connection of a Listener. It hands over the head of a request and nothing behind it: the body waits, in the kernel as
// far as it can, until somebody who has judged the head reads it with Body. It lingers when it is closed on a client that still
// sends: a socket closed with bytes unread resets the connection, and the client would never read the answer that refused them.
type Conn struct {
	net.Conn
	ln     *Listener
	peer   netip.Prefix // whose it is
	linger atomic.Bool
	passed atomic.Bool                   // it goes on as another Conn
	stream atomic.Pointer[Writer]        // on which both ends talk: see Set.Attach
	last   func(p []byte) ([]byte, bool) // Control of Duplex; set before stream
	seen   func(p []byte)                // Read of it; likewise

	awaits atomic.Bool   // nothing was read behind a stream yet
	within time.Duration // for which fasthttp would wait for the whole request; used by who reads, as are the next
	head   head          // where the head of a request ends
	ahead  []byte        // what was read behind it
	body   *Body         // of the request; nil when nobody has asked for it
	dead   bool          // what comes cannot be told from a body that nobody has read

	until time.Time     // by which the whole of an answer must be taken, zero for never; used by who writes, as are the next
	taken int           // of it
	spent time.Duration // on having that taken

	busy atomic.Bool  // a request is answered, or a stream is open
	rest atomic.Int64 // since when it is not, in Unix ns

	mu      sync.Mutex              // guards the fields below
	held    *budget.Hold            // by the request and its answer
	request context.CancelCauseFunc // ends the request's context
	watch   *time.Timer             // looks from time to time whether the client has left
}

// Own returns the connection of a Listener that c is, nil for one of somebody else.
func Own(c net.Conn) *Conn {
	own, _ := c.(*Conn)
	return own
}

// Below is what the connection was made of.
func (c *Conn) Below() net.Conn { return c.Conn }

// Read reads, but not across the end of a request's head, and tells the stream that its client is alive.
func (c *Conn) Read(p []byte) (int, error) {
	switch {
	case c.dead:
		return 0, io.EOF
	case c.head.bare:
		return 0, errBare
	}
	n, err := c.next(p)
	if n > 0 && c.awaits.Swap(false) {
		_ = c.SetReadDeadline(time.Now().Add(c.within))
	}
	if w := c.stream.Load(); w != nil && n > 0 {
		w.Heard()
		c.seen(p[:n])
		return n, err
	}
	if end := c.head.cut(p[:n]); end < n {
		c.ahead = append(bytes.Clone(p[end:n]), c.ahead...)
		return end, nil
	}
	return n, err
}

// next reads what was read ahead, or else what comes.
func (c *Conn) next(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil
	}
	return n, nil
}

// Write writes, once there is a stream between two of its batches. Otherwise the client must take p at a least rate.
func (c *Conn) Write(p []byte) (int, error) {
	if w := c.stream.Load(); w != nil {
		frame, last := c.last(p)
		if _, err := w.interject(frame, last); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if c.busy.Load() {
		return c.deliver(p)
	}
	return c.Conn.Write(p)
}

// deliver writes p, a part of an answer of which the client must take one parcel after the other.
func (c *Conn) deliver(p []byte) (n int, err error) {
	cfg := &c.ln.cfg
	for n < len(p) && err == nil {
		began := time.Now()
		until := began.Add(min(cfg.Slack, cfg.lasting(c.taken)-c.spent))
		if !c.until.IsZero() {
			until = earlier(until, c.until)
		}
		_ = c.Conn.SetWriteDeadline(until)
		var k int
		k, err = c.Conn.Write(p[n:min(n+cfg.parcel(), len(p))])
		n += k
		c.taken += k
		c.spent += time.Since(began)
	}
	return n, err
}

// SetWriteDeadline sets the time by which an answer that begins must be taken, unless that is the stream's affair.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if c.stream.Load() != nil {
		return nil
	}
	c.until, c.taken, c.spent = t, 0, 0
	return c.Conn.SetWriteDeadline(t)
}

// SetReadDeadline sets the time by which reads must be done, for requests that of a server that stops at the latest. The
// first request behind a stream, which fasthttp takes for a connection's first, has its time from its first byte on.
func (c *Conn) SetReadDeadline(t time.Time) error {
	awaits := c.awaits.Load()
	if awaits {
		c.within = time.Until(t)
		t = time.Now().Add(c.ln.cfg.Idle)
	}
	if c.stream.Load() == nil {
		t = c.ln.soonest(t, awaits)
	}
	return c.Conn.SetReadDeadline(t)
}

// Linger has a connection of a Listener, once it is closed, read on for a while what its client still sends: else
// that might never read the last that was sent to it.
func Linger(c net.Conn) {
	if own := Own(c); own != nil {
		own.linger.Store(true)
	}
}

// What a lingering connection reads at most, and for how long.
const (
	lingerBytes = 64 << 20
	lingerTime  = 2 * time.Second
)

// pass has the server answer the connection's next requests, as those of another that is the same below.
func (c *Conn) pass() {
	next := &Conn{Conn: c.Conn, ln: c.ln}
	next.awaits.Store(c.ln.cfg.Idle > 0)
	c.passed.Store(true)
	go c.ln.cfg.Serve(c.ln.add(next)) // ends with the connection, which the server counts
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.Rest()
	c.ln.remove(c)
	if c.passed.Load() {
		return nil
	}
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Swap(false) && w.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	return c.Conn.Close()
}
