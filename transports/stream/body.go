package stream

import (
	"bufio"
	"errors"
	"io"
	"net/http/httputil"
	"os"
	"time"
)

// Body reads the body of the current request as it arrives. Reading fails when that takes too long.
type Body struct {
	c     *Conn
	left  int           // bytes to read of a body of known length
	lines *bufio.Reader // the raw input of a chunked body, else nil
	parts io.Reader     // the decoded chunks
	greet bool          // the client waits for 100 Continue
	whole bool          // it was read to its end
	err   error

	began time.Time
	got   int

	Unhurried bool // the whole body has no time limit, only its parts
}

// ErrLate means that a body did not arrive in time.
var ErrLate = errors.New("the body took too long to arrive")

// Body returns the body of the request whose head was read. Length is -1 for a chunked body; greet means that the client waits
// for 100 Continue. Call it once per request.
func (c *Conn) Body(length int, greet bool) *Body {
	b := &Body{c: c, left: length, greet: greet, whole: length == 0}
	c.body = b
	if length < 0 {
		b.lines = bufio.NewReaderSize(arriving{b}, 4<<10)
		b.parts = httputil.NewChunkedReader(b.lines)
	}
	return b
}

// Read reads the body as it arrives.
func (b *Body) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.whole:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	var n int
	if b.lines != nil {
		n, b.err = b.readParts(p)
	} else {
		n, b.err = arriving{b}.Read(p[:min(len(p), b.left)])
		b.left -= n
		b.whole = b.left == 0
		if errors.Is(b.err, io.EOF) {
			b.err = io.ErrUnexpectedEOF
		}
	}
	if b.whole {
		b.err = nil
	}
	return n, b.err
}

// readParts reads the chunks, and after the last one the trailer, which it ignores.
func (b *Body) readParts(p []byte) (int, error) {
	n, err := b.parts.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	for size := 0; size < trailer; {
		line, err := b.lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return n, io.ErrUnexpectedEOF
		case errors.Is(err, bufio.ErrBufferFull):
			return n, errTrailer
		case err != nil:
			return n, err
		}
		if size += len(line); len(line) == 1 || len(line) == 2 && line[0] == '\r' {
			b.whole = true
			left, _ := b.lines.Peek(b.lines.Buffered())
			b.c.readAhead = append(append([]byte(nil), left...), b.c.readAhead...)
			return n, io.EOF
		}
	}
	return n, errTrailer
}

// trailer is the largest trailer in bytes.
const trailer = 4 << 10

var errTrailer = errors.New("the trailer is too long")

// Whole reports whether the body was read to its end.
func (b *Body) Whole() bool { return b.whole }

// Done ends the current request, so that the next input is another request. It reports false if the body was not read to its
// end: then the connection must be closed.
func (c *Conn) Done(length int) bool {
	whole := length == 0
	switch {
	case c.body != nil && c.body.lines == nil:
		length, whole = c.body.left, c.body.whole
	case c.body != nil:
		whole = c.body.whole
	}
	c.body = nil
	if !whole && length > 0 && length <= len(c.readAhead) { // it has already arrived
		c.readAhead, whole = c.readAhead[length:], true
	}
	c.unsynced = !whole
	return whole
}

// arriving reads from the connection while input arrives fast enough.
type arriving struct{ b *Body }

func (a arriving) Read(p []byte) (int, error) {
	b, c := a.b, a.b.c
	if len(c.readAhead) == 0 {
		now := time.Now()
		if b.began.IsZero() {
			b.began = now
		}
		if b.greet {
			b.greet = false
			_ = c.Conn.SetWriteDeadline(now.Add(c.ln.cfg.Slack))
			if _, err := io.WriteString(c.Conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return 0, err
			}
		}
		until := c.ln.cfg.until(b.began, b.got)
		if b.Unhurried {
			until = earlier(b.began.Add(c.ln.cfg.lasting(b.got)), now.Add(c.ln.cfg.Slack))
		}
		_ = c.SetReadDeadline(until)
	}
	n, err := c.next(p)
	b.got += n
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ErrLate
	}
	return n, err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
