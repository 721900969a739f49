package stream

import (
	"bufio"
	"errors"
	"io"
	"net/http/httputil"
	"os"
	"time"
)

// Body is the body of the request that is being answered, read as it comes. Reading fails when it takes too long.
type Body struct {
	c     *Conn
	left  int           // of a body whose length is known
	lines *bufio.Reader // of one in chunks, as it comes, else nil
	parts io.Reader     // of one in chunks, what is in them
	greet bool          // the client waits for word that it may send
	whole bool          // it was read to its end
	err   error

	began time.Time
	got   int

	Unhurried bool // there is no limit to the time of the whole, as long as it gets on
}

// ErrLate means that a body was not there when it should have been.
var ErrLate = errors.New("the body took too long to arrive")

// Body returns the body of the request whose head was read, of so many bytes, or in chunks for -1. Greet says that the client waits
// for word that it may send. It is for who answers the request, once.
func (c *Conn) Body(length int, greet bool) *Body {
	b := &Body{c: c, left: length, greet: greet, whole: length == 0}
	c.body = b
	if length < 0 {
		b.lines = bufio.NewReaderSize(arriving{b}, 4<<10)
		b.parts = httputil.NewChunkedReader(b.lines)
	}
	return b
}

// Read reads what comes.
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

// readParts reads what is in the chunks, and behind the last the trailer, whose fields mean nothing here.
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
			b.c.ahead = append(append([]byte(nil), left...), b.c.ahead...)
			return n, io.EOF
		}
	}
	return n, errTrailer
}

// trailer is how many bytes may stand behind the last chunk.
const trailer = 4 << 10

var errTrailer = errors.New("the trailer is too long")

// Whole reports whether the body was read to its end.
func (b *Body) Whole() bool { return b.whole }

// Done has the connection take what comes next for a request. It reports false when it cannot be told where the body ends, which
// nobody has read: then the connection must be closed.
func (c *Conn) Done(length int) bool {
	whole := length == 0
	switch {
	case c.body != nil && c.body.lines == nil:
		length, whole = c.body.left, c.body.whole
	case c.body != nil:
		whole = c.body.whole
	}
	c.body = nil
	if !whole && length > 0 && length <= len(c.ahead) { // it is here, and costs nothing
		c.ahead, whole = c.ahead[length:], true
	}
	c.dead = !whole
	return whole
}

// arriving reads from the connection as long as enough arrives.
type arriving struct{ b *Body }

func (a arriving) Read(p []byte) (int, error) {
	b, c := a.b, a.b.c
	if len(c.ahead) == 0 {
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
