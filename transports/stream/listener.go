package stream

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Listener is a listener that outlives a shortage of descriptors, at which fasthttp would stop serving for
// good, and whose connections can linger, be hurried, and become streams on which both ends talk.
type Listener struct {
	net.Listener
	log   *slog.Logger
	idle  time.Duration  // for which the request behind a stream is awaited
	serve func(net.Conn) // has a connection's requests answered; nil when each has but one

	mu    sync.Mutex         // guards the fields below
	open  map[*conn]struct{} // its connections
	until time.Time          // by which all must have been read; zero until Hurry
}

// NewListener returns a listener for the connections that come in on ln. Those whose streams have ended are given to
// serve, which answers the requests that follow, the first of which may take idle to begin; when serve is nil they are closed.
func NewListener(ln net.Listener, log *slog.Logger, idle time.Duration, serve func(net.Conn)) *Listener {
	return &Listener{Listener: ln, log: log, idle: idle, serve: serve, open: make(map[*conn]struct{})}
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := l.Listener.Accept()
		if err == nil {
			return l.Adopt(c), nil
		}
		if !shortage(err) {
			return nil, err
		}
		l.log.Warn("cannot accept a connection", "error", err, "retry", wait)
		<-time.After(wait)
	}
}

// Adopt makes c, which came in another way, one of the listener's connections.
func (l *Listener) Adopt(c net.Conn) net.Conn { return l.add(&conn{Conn: c, ln: l}) }

func (l *Listener) add(c *conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	return c
}

// Hurry gives up requests that have not arrived in a second: fasthttp would wait for them, and its own limit is long.
func (l *Listener) Hurry() {
	until := time.Now().Add(goodbye)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
	for c := range l.open {
		if c.stream.Load() == nil {
			_ = c.Conn.SetReadDeadline(until)
		}
	}
}

// soonest returns t, or the time by which all must have been read.
func (l *Listener) soonest(t time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.until.IsZero() && (t.IsZero() || t.After(l.until)) {
		return l.until
	}
	return t
}

// shortage reports whether Accept may succeed later.
func shortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// conn is a connection that lingers when it is closed on a client that still sends: a socket closed with
// bytes unread resets the connection, and the client would never read the answer that refused them.
type conn struct {
	net.Conn
	ln     *Listener
	linger atomic.Bool
	passed atomic.Bool                   // it goes on as another conn
	stream atomic.Pointer[Writer]        // on which both ends talk: see Set.Attach
	last   func(p []byte) ([]byte, bool) // Control of Duplex; set before stream
	seen   func(p []byte)                // Read of it; likewise

	awaits bool          // nothing was read behind a stream yet; used by who reads, as is the next
	within time.Duration // for which fasthttp would wait for the whole request
}

// Read reads, and tells the stream that its client is alive.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.awaits && n > 0 {
		c.awaits = false
		_ = c.SetReadDeadline(time.Now().Add(c.within))
	}
	if w := c.stream.Load(); w != nil && n > 0 {
		w.Heard()
		c.seen(p[:n])
	}
	return n, err
}

// Write writes, once there is a stream between two of its batches.
func (c *conn) Write(p []byte) (int, error) {
	if w := c.stream.Load(); w != nil {
		frame, last := c.last(p)
		if _, err := w.interject(frame, last); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline sets the time by which writes must be done, unless that is the stream's affair.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if c.stream.Load() != nil {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetReadDeadline sets the time by which reads must be done, for requests that of a server that stops at the latest. The
// first request behind a stream, which fasthttp takes for a connection's first, has its time from its first byte on.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.awaits {
		c.within = time.Until(t)
		t = time.Now().Add(c.ln.idle)
	}
	if c.stream.Load() == nil {
		t = c.ln.soonest(t)
	}
	return c.Conn.SetReadDeadline(t)
}

// Linger has a connection of a Listener, once it is closed, read on for a while what its client still sends: else
// that might never read the last that was sent to it.
func Linger(c net.Conn) {
	if own, ok := c.(*conn); ok {
		own.linger.Store(true)
	}
}

// Adopted is what a connection of a Listener was made of, or c itself.
func Adopted(c net.Conn) net.Conn {
	if own, ok := c.(*conn); ok {
		return own.Conn
	}
	return c
}

// What a lingering connection reads at most, and for how long.
const (
	lingerBytes = 64 << 20
	lingerTime  = 2 * time.Second
)

// pass has the server answer the connection's next requests, as those of another that is the same below.
func (c *conn) pass() {
	c.passed.Store(true)
	go c.ln.serve(c.ln.add(&conn{Conn: c.Conn, ln: c.ln, awaits: c.ln.idle > 0})) // ends with the connection, which the server counts
}

// Close closes the connection.
func (c *conn) Close() error {
	c.ln.mu.Lock()
	delete(c.ln.open, c)
	c.ln.mu.Unlock()
	if c.passed.Load() {
		return nil
	}
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Swap(false) && w.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	return c.Conn.Close()
}
