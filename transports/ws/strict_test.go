package ws_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/batonrun/baton/transports"
)

// strict is a client that looks at every byte of what it reads.
type strict struct {
	*net.TCPConn
	s      *server
	in     *bufio.Reader
	status int // of the answer to the handshake
	header http.Header
}

// The first bytes of whole frames.
const (
	textFrame  = 0x81
	closeFrame = 0x88
	pingFrame  = 0x89
	pongFrame  = 0x8a
)

// strict asks for a socket.
func (s *server) strict(request string) *strict {
	s.Helper()
	c := &strict{TCPConn: s.Dial(request), s: s}
	c.in = bufio.NewReader(c)
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	c.status, c.header = resp.StatusCode, resp.Header
	return c
}

// send sends a frame.
func (c *strict) send(first byte, body string) {
	_, _ = c.Write(masked(first, body))
}

func masked(first byte, body string) []byte {
	out := []byte{first, 0x80 | 126, byte(len(body) >> 8), byte(len(body)), 1, 2, 3, 4}
	if len(body) < 126 {
		out = []byte{first, 0x80 | byte(len(body)), 1, 2, 3, 4}
	}
	for i := range len(body) {
		out = append(out, body[i]^byte(i%4+1))
	}
	return out
}

// next returns the next frame, and io.EOF at the end of the connection.
func (c *strict) next() (first byte, body string, err error) {
	head := make([]byte, 2, 10)
	if _, err := io.ReadFull(c.in, head); err != nil {
		return 0, "", err
	}
	size, extra := uint64(head[1]), 0
	switch head[1] {
	case 126:
		extra = 2
	case 127:
		extra = 8
	}
	long := make([]byte, 8)
	if _, err := io.ReadFull(c.in, long[8-extra:]); err != nil {
		return 0, "", err
	}
	if extra > 0 {
		size = binary.BigEndian.Uint64(long)
	}
	if head[1] > 127 || extra == 2 && size < 126 || extra == 8 && size < 1<<16 || size > 1<<30 {
		return 0, "", fmt.Errorf("a frame begins with %x and %x", head, long)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return 0, "", fmt.Errorf("half a frame: %w", err)
	}
	var valid bool
	switch first = head[0]; first {
	case textFrame:
		valid = utf8.Valid(text)
	case closeFrame:
		valid = size == 0 || size >= 2 && size < 126 && utf8.Valid(text[2:])
	case pingFrame, pongFrame:
		valid = size < 126
	default:
		valid = false
	}
	if !valid {
		return 0, "", fmt.Errorf("a bad frame of kind %x: %q", first, text)
	}
	return first, string(text), nil
}

// until reads up to a frame that holds part.
func (c *strict) until(part string) {
	c.s.Helper()
	for {
		if _, body, err := c.next(); err != nil {
			c.s.Fatal(err)
		} else if strings.Contains(body, part) {
			return
		}
	}
}

// closed reads up to the frame that closes the socket, and returns its code. Nothing may follow it.
func (c *strict) closed() (code int) {
	c.s.Helper()
	for {
		first, body, err := c.next()
		switch {
		case code != 0 && errors.Is(err, io.EOF):
			return code
		case err != nil || code != 0:
			c.s.Fatalf("got %x %s, %v; closed with %d", first, brief(body), err, code)
		case first == closeFrame:
			code = 1005
			if body != "" {
				code = int(binary.BigEndian.Uint16([]byte(body)))
			}
		}
	}
}

func TestNothingFollowsTheClose(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("short", `{"say": "x"}`).RunID, "COMPLETED")
	s.Script("main", strings.TrimSuffix(strings.Repeat(flood+",", 5), ","))
	for _, c := range []struct {
		frame []byte
		code  int
	}{
		{masked(closeFrame, ""), 1005},
		{masked(closeFrame, "\x03\xe8bye"), 1000},
		{masked(textFrame, strings.Repeat("x", 2000)), 1009},
		{[]byte{textFrame, 1, 'x'}, 1002},
		{masked(0xa1, ""), 1002},
		{masked(closeFrame, "\x03"), 1002},
		{masked(textFrame, "\xff"), 1007},
		{masked(closeFrame, "\x03\xe8\xff"), 1007},
		{masked(closeFrame, "\x03\xf6"), 1014},
		{masked(closeFrame, "\x03\xed"), 1002},
		{[]byte{textFrame, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4}, 1002},
		{append(masked(0x01, "\xe2\x82"), masked(0x80, "x")...), 1007},
	} {
		for range 2 {
			busy := s.strict(upgrading("/api/v1/agent/runs/main/ws?follow=true"))
			busy.until("TEXT_MESSAGE_CONTENT")
			_, _ = busy.Write(c.frame)
			if code := busy.closed(); code != c.code {
				t.Errorf("%x: closed with %d, want %d", c.frame[:2], code, c.code)
			}
			crossing := s.strict(upgrading("/api/v1/agent/runs/short/ws")) // the server closes it too
			_, _ = crossing.Write(c.frame)
			if code := crossing.closed(); code != c.code && code != 1000 {
				t.Errorf("%x: closed with %d", c.frame[:2], code)
			}
		}
	}
}

func TestFragmentsMayHaveControlFramesBetween(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.strict(upgrading("/api/v1/ws"))
	c.send(0x01, `{"op": "fl`)
	c.send(pingFrame, "there?")
	c.send(0x00, "")
	c.send(pongFrame, "unasked")
	c.send(0x80, `y", "ref": 1}`)
	if first, body, err := c.next(); first != pongFrame || body != "there?" {
		t.Errorf("got %x %q, %v", first, body, err)
	}
	if _, body, err := c.next(); !strings.Contains(body, `"ref":1`) || !strings.Contains(body, "unknown_op") {
		t.Errorf("got %q, %v", body, err)
	}
	c.send(textFrame, "no json")
	if _, body, err := c.next(); !strings.Contains(body, "invalid_json") {
		t.Errorf("got %q, %v", body, err)
	}
	c.send(closeFrame, "\x03\xe8")
	if code := c.closed(); code != 1000 {
		t.Errorf("closed with %d", code)
	}
}

func TestHandshakeThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	const version, key = "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
	for request, want := range map[string]int{
		"HTTP/1.1 " + version + " " + key:                                 101,
		"HTTP/1.1 " + key:                                                 426,
		"HTTP/1.1 Sec-WebSocket-Version: 8 " + key:                        426,
		"HTTP/1.0 Connection: keep-alive, Upgrade " + version + " " + key: 426,
		"HTTP/1.1 " + version:                                             400,
		"HTTP/1.1 " + version + " Sec-WebSocket-Key: short":               400,
	} {
		lines := strings.ReplaceAll(strings.ReplaceAll(request, " Sec", "\r\nSec"), " Connection", "\r\nConnection")
		c := s.strict("GET /api/v1/ws " + lines + "\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if c.status != want {
			t.Errorf("%s: got %d, want %d", request, c.status, want)
		}
		if h := c.header; want == 426 && (h.Get("Sec-WebSocket-Version") != "13" || h.Get("Upgrade") != "websocket") {
			t.Errorf("%s: got %v", request, h)
		}
	}
}

func TestProtocolsMayBeOfferedInSeveralLines(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	request := strings.Replace(upgrading("/api/v1/ws"), "\r\n\r\n", "\r\nSec-WebSocket-Protocol: x\r\nSec-WebSocket-Protocol: y, baton.v1\r\n\r\n", 1)
	if got := s.strict(request).header["Sec-Websocket-Protocol"]; len(got) != 1 || got[0] != "baton.v1" {
		t.Errorf("got %q", got)
	}
}

// TestRefusedSocketTakesNothing sends commands right behind the handshake of a socket that is for somebody else's project.
func TestRefusedSocketTakesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, path := range []string{"/api/v1/ws", "/api/v1/agui/echo/ws", "/api/v1/agent/runs/main/ws"} {
		request := upgrading(path+"?projectId=other") + strings.Repeat(string(masked(textFrame, `{"op":"cancel","runId":"x"}`)), 10)
		for range 300 {
			if first, body, err := s.strict(request).next(); first != closeFrame || !strings.HasPrefix(body, "\x11\x34") {
				t.Fatalf("%s: got %x %q, %v, want a close with 4404", path, first, body, err)
			}
		}
	}
}

func TestStoppingServerWaitsForNoHalfRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	ask := upgrading("/api/v1/ws")
	s.Dial(ask[:len(ask)/2])
	s.Dial("POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	s.Dial("")
	s.many().send(`{"op": "fly"}`) // answered when the others have arrived
	began := time.Now()
	s.Stop()
	if d := time.Since(began); d > patience/2 {
		t.Errorf("stopping took %v", d)
	}
}

func TestTextMustBeUTF8OnEverySocket(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Script("main", `{"tool": "sleep", "args": {"ms": 60000}}`)
	for _, path := range []string{"/api/v1/ws", "/api/v1/agui/echo/ws", "/api/v1/agent/runs/main/ws?follow=true"} {
		for frames, code := range map[string]int{
			string(masked(textFrame, "{\"op\": \"\xc3\x28\"}")): 1007,
			string(masked(closeFrame, "\x03")):                  1002,
		} {
			c := s.strict(upgrading(path))
			_, _ = c.Write([]byte(frames))
			if got := c.closed(); got != code {
				t.Errorf("%s: closed with %d, want %d", path, got, code)
			}
		}
	}
}
