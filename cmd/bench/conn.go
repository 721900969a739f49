package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// conn is a connection to the server that carries one request after another. It implements the minimum of HTTP/1.1 and
// server-sent events, and reuses its buffers.
type conn struct {
	net.Conn
	host string
	out  []byte
	in   []byte // received bytes; in[r:] is unread
	r    int

	status  int
	chunked bool
	left    int   // remaining bytes of the body, or of its current chunk; -1 if the body ends with the connection
	ended   bool  // the body has ended
	wire    int64 // bytes received
	reads   int   // number of reads

	body []byte // of the answer, without chunk headers; body[b:] is unread
	b    int
	seen int // bytes of body[b:] that contain no frame's end

	socket bool // a WebSocket: the body is its frames
}

// dial connects to addr, a host and a port.
func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, host: addr}, nil
}

// send writes a request. header contains additional lines, each ended by CRLF.
func (c *conn) send(method, path, header string, body []byte) error {
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: %s\r\n%s", method, path, c.host, header)
	if body != nil {
		c.out = fmt.Appendf(c.out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	c.out = append(append(c.out, "\r\n"...), body...)
	_, err := c.Write(c.out)
	return err
}

// fill receives more bytes.
func (c *conn) fill() error {
	if c.r == len(c.in) {
		c.in, c.r = c.in[:0], 0
	}
	if cap(c.in)-len(c.in) < 4<<10 {
		grown := make([]byte, len(c.in)-c.r, max(8<<10, 2*cap(c.in)))
		copy(grown, c.in[c.r:])
		c.in, c.r = grown, 0
	}
	n, err := c.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	c.wire += int64(n)
	c.reads++
	if n > 0 {
		return nil
	}
	return err
}

// line returns the next line without its end. It is valid until the next call.
func (c *conn) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.in[c.r:], '\n'); i >= 0 {
			line := c.in[c.r : c.r+i]
			c.r += i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		if err := c.fill(); err != nil {
			return nil, cut(err)
		}
	}
}

// receive reads an answer up to its body and returns the status.
func (c *conn) receive() (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, fmt.Errorf("not HTTP: %q", line)
	}
	if c.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("not HTTP: %q", line)
	}
	c.chunked, c.left, c.ended = false, -1, false
	c.body, c.b, c.seen = c.body[:0], 0, 0
	for {
		if line, err = c.line(); err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if c.left, err = strconv.Atoi(string(value)); err != nil {
				return 0, fmt.Errorf("Content-Length: %w", err)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			c.chunked, c.left = true, 0
		}
	}
	if c.status == 204 {
		c.ended = true
	}
	return c.status, nil
}

// more waits for more of the body and appends it. It fails with io.EOF at the end of the body.
func (c *conn) more() error {
	if c.ended || !c.chunked && c.left == 0 {
		c.ended = true
		return io.EOF
	}
	if c.chunked && c.left == 0 {
		if err := c.nextChunk(); err != nil {
			return err
		}
	}
	if c.r == len(c.in) {
		if err := c.fill(); err != nil {
			if c.left < 0 && errors.Is(err, io.EOF) {
				c.ended = true
				return io.EOF
			}
			return cut(err)
		}
	}
	if c.b == len(c.body) {
		c.body, c.b = c.body[:0], 0
	}
	for c.r < len(c.in) { // all received chunks
		got := c.in[c.r:]
		if c.left >= 0 && len(got) > c.left {
			got = got[:c.left]
		}
		c.body = append(c.body, got...)
		c.r += len(got)
		if c.left >= 0 {
			c.left -= len(got)
		}
		if c.left != 0 || !c.chunked || bytes.Count(c.in[c.r:], []byte("\n")) < 2 {
			break
		}
		if err := c.nextChunk(); err != nil {
			break // c.ended is set: the next call returns io.EOF
		}
	}
	return nil
}

// nextChunk reads the end of the previous chunk and the size of the next one.
func (c *conn) nextChunk() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		if len(line) == 0 { // the last chunk's end
			continue
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk size: %w", err)
		}
		c.left = int(size)
		if size > 0 {
			return nil
		}
		c.ended = true
		if _, err := c.line(); err != nil {
			return err
		}
		return io.EOF
	}
}

// text returns the whole body. It is valid until the next call.
func (c *conn) text() ([]byte, error) {
	for {
		if err := c.more(); errors.Is(err, io.EOF) {
			return c.body[c.b:], nil
		} else if err != nil {
			return nil, err
		}
	}
}

// frame is one server-sent event.
type frame struct {
	id   int64  // 0 if it has none
	kind string // the event's type if it is one of the types below, else ""
	raw  []byte // the whole frame; valid until the next call
}

// The event types that benches need.
const (
	textContent = "TEXT_MESSAGE_CONTENT"
	toolCallEnd = "TOOL_CALL_END"
	runFinished = "RUN_FINISHED"
	runError    = "RUN_ERROR"
)

var frameEnd = []byte("\n\n")

// frame waits for the next frame and returns it, or io.EOF when the server has ended the stream.
func (c *conn) frame() (frame, error) {
	if c.socket {
		return c.message()
	}
	for {
		if i := bytes.Index(c.body[c.b+c.seen:], frameEnd); i >= 0 {
			raw := c.body[c.b : c.b+c.seen+i+2]
			c.b += len(raw)
			c.seen = 0
			return parse(raw), nil
		}
		c.seen = max(0, len(c.body)-c.b-1)
		c.compact()
		if err := c.more(); err != nil {
			return frame{}, err
		}
	}
}

// compact drops the read part of the body if it is large.
func (c *conn) compact() {
	if c.b > 64<<10 {
		c.body = c.body[:copy(c.body, c.body[c.b:])]
		c.b = 0
	}
}

func parse(raw []byte) frame {
	rest := raw
	for bytes.HasPrefix(rest, []byte(":")) || bytes.HasPrefix(rest, []byte("retry: ")) { // part of the stream, not of the event
		rest = rest[bytes.IndexByte(rest, '\n')+1:]
	}
	id, rest := leadingID(rest, "id: ")
	return frame{id: id, kind: leadingKind(rest, "event: ", '\n'), raw: raw}
}

// leadingID reads the number after prefix, and returns it and the text after the byte that ends it.
func leadingID(raw []byte, prefix string) (id int64, rest []byte) {
	after, ok := bytes.CutPrefix(raw, []byte(prefix))
	if !ok {
		return 0, raw
	}
	i := 0
	for ; i < len(after) && after[i] >= '0' && after[i] <= '9'; i++ {
		id = 10*id + int64(after[i]-'0')
	}
	return id, after[min(i+1, len(after)):]
}

// leadingKind reads the event type after prefix, up to end.
func leadingKind(raw []byte, prefix string, end byte) string {
	after, ok := bytes.CutPrefix(raw, []byte(prefix))
	if !ok {
		return ""
	}
	switch kind := after[:max(0, bytes.IndexByte(after, end))]; string(kind) {
	case textContent:
		return textContent
	case toolCallEnd:
		return toolCallEnd
	case runFinished:
		return runFinished
	case runError:
		return runError
	}
	return ""
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
