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

// Conn is a connection of a Listener. Read returns the head of a request and nothing after it: the body waits, mostly in the
// kernel, until the request was accepted by its head and is read with Body. Close lingers while the client still sends:
// closing a socket with unread bytes resets the connection, and the client would never read the answer that refused them.
type Conn struct {
	net.Conn
	ln         *Listener
	peer       netip.Prefix // the client's address or network
	linger     atomic.Bool
	handedOver atomic.Bool                   // another Conn has the socket now
	behind     bool                          // the socket carried a stream before
	stream     atomic.Pointer[Writer]        // see Set.Attach
	control    func(p []byte) ([]byte, bool) // Control of Duplex; set before stream
	onRead     func(p []byte)                // Read of Duplex; set before stream

	// The goroutine that reads uses these.
	awaitsFirst    atomic.Bool   // nothing was read of the first request, or of the first since a stream has ended
	requestTimeout time.Duration // fasthttp's limit for the head of that request
	head           head          // finds the end of a request's head
	readAhead      []byte        // bytes behind the head
	body           *Body         // of the request; nil until Body is called
	unsynced       bool          // the next request cannot be found, as the body was not read

	// The goroutine that writes uses these.
	answerBy  time.Time     // deadline for the client to read the whole answer, zero for none
	written   int           // bytes of the answer
	writeTime time.Duration // spent on writing them

	busy      atomic.Bool  // a request is answered, or a stream is open
	idleSince atomic.Int64 // in Unix ns

	mu      sync.Mutex              // guards the fields below
	held    *budget.Hold            // by the request and its answer
	request context.CancelCauseFunc // ends the request's context
	watcher *time.Timer             // checks whether the client has disconnected
}

// Own returns c as the connection of a Listener, nil if it is not one.
func Own(c net.Conn) *Conn {
	own, _ := c.(*Conn)
	return own
}

// Below returns the connection below.
func (c *Conn) Below() net.Conn { return c.Conn }

// Read reads, but not past the end of a request's head. On a stream it reports that the client is alive.
func (c *Conn) Read(p []byte) (int, error) {
	switch {
	case c.unsynced:
		return 0, io.EOF
	case c.head.bare:
		return 0, errBare
	}
	n, err := c.next(p)
	if n > 0 && c.awaitsFirst.Swap(false) {
		_ = c.SetReadDeadline(time.Now().Add(c.requestTimeout))
	}
	if w := c.stream.Load(); w != nil && n > 0 {
		w.Alive()
		c.onRead(p[:n])
		return n, err
	}
	if end := c.head.cut(p[:n]); end < n {
		c.readAhead = append(bytes.Clone(p[end:n]), c.readAhead...)
		return end, nil
	}
	return n, err
}

// next reads from readAhead, or else from the connection.
func (c *Conn) next(p []byte) (int, error) {
	if len(c.readAhead) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.readAhead)
	if c.readAhead = c.readAhead[n:]; len(c.readAhead) == 0 {
		c.readAhead = nil
	}
	return n, nil
}

// Write writes p: on a stream between two batches, otherwise as part of an answer that the client must read at a minimum rate.
func (c *Conn) Write(p []byte) (int, error) {
	if w := c.stream.Load(); w != nil {
		frame, last := c.control(p)
		if _, err := w.interject(frame, last); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if c.busy.Load() {
		return c.writeAnswer(p)
	}
	return c.Conn.Write(p)
}

// writeAnswer writes p in parcels. The client must read each within its deadline.
func (c *Conn) writeAnswer(p []byte) (n int, err error) {
	cfg := &c.ln.cfg
	for n < len(p) && err == nil {
		began := time.Now()
		until := began.Add(min(cfg.Slack, cfg.lasting(c.written)-c.writeTime))
		if !c.answerBy.IsZero() {
			until = earlier(until, c.answerBy)
		}
		_ = c.Conn.SetWriteDeadline(until)
		var k int
		k, err = c.Conn.Write(p[n:min(n+cfg.parcel(), len(p))])
		n += k
		c.written += k
		c.writeTime += time.Since(began)
	}
	return n, err
}

// SetWriteDeadline sets the time by which the client must have read the next answer. It does nothing while a stream is open.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if c.stream.Load() != nil {
		return nil
	}
	c.answerBy, c.written, c.writeTime = t, 0, 0
	return c.Conn.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline for reads. While the server stops, requests have an earlier one. The first request has its time
// from its first byte on, not from the connection's start as fasthttp has it: a client that is busy opens connections long before
// it uses them.
func (c *Conn) SetReadDeadline(t time.Time) error {
	awaits := c.awaitsFirst.Load()
	if awaits {
		c.requestTimeout = time.Until(t)
		t = time.Now().Add(c.ln.cfg.Idle)
	}
	if c.stream.Load() == nil {
		t = c.ln.soonest(t, awaits && c.behind)
	}
	return c.Conn.SetReadDeadline(t)
}

// Linger makes Close of a Listener's connection read and discard the client's input for a while: otherwise the client might
// never read the last write.
func Linger(c net.Conn) {
	if own := Own(c); own != nil {
		own.linger.Store(true)
	}
}

// The limits of a lingering connection.
const (
	lingerBytes = 64 << 20
	lingerTime  = 2 * time.Second
)

// serveNext makes the server answer the connection's next requests, through a new Conn on the same socket.
func (c *Conn) serveNext() {
	next := &Conn{Conn: c.Conn, ln: c.ln, behind: true}
	next.awaitsFirst.Store(c.ln.cfg.Idle > 0)
	c.handedOver.Store(true)
	go c.ln.cfg.Serve(c.ln.add(next)) // ends with the connection, which the server counts
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.EndRequest()
	c.ln.remove(c)
	if c.handedOver.Load() {
		return nil
	}
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Swap(false) && w.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	return c.Conn.Close()
}
