package main

import (
	"encoding/binary"
	"fmt"
	"io"
)

// upgrade opens a WebSocket.
func (c *conn) upgrade(path string) error {
	const header = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	if err := c.send("GET", path, header, nil); err != nil {
		return err
	}
	status, err := c.receive()
	if err == nil && status != 101 {
		text, _ := c.text()
		err = fmt.Errorf("status %d instead of a WebSocket: %s", status, text)
	}
	c.left, c.socket = -1, true
	return err
}

// The first bytes of frames.
const (
	textFrame  = 0x81
	closeFrame = 0x88
	pingFrame  = 0x89
)

// message returns the next event from a WebSocket, or io.EOF when the server has closed it.
func (c *conn) message() (frame, error) {
	for {
		head, n := frameSize(c.body[c.b:])
		if n == 0 || len(c.body)-c.b < n {
			c.compact()
			if err := c.more(); err != nil {
				return frame{}, err
			}
			continue
		}
		raw := c.body[c.b : c.b+n]
		c.b += n
		switch raw[0] {
		case textFrame:
			return parseMessage(raw, raw[head:]), nil
		case pingFrame:
			if _, err := c.Write([]byte{0x8a, 0x80, 0, 0, 0, 0}); err != nil {
				return frame{}, err
			}
		case closeFrame:
			return frame{}, io.EOF
		}
	}
}

// frameSize returns the size of a frame's header and of the whole frame, 0 if buf is too short to know.
func frameSize(buf []byte) (head, all int) {
	switch {
	case len(buf) < 2:
		return 0, 0
	case buf[1] < 126:
		return 2, 2 + int(buf[1])
	case buf[1] == 126 && len(buf) >= 4:
		return 4, 4 + int(binary.BigEndian.Uint16(buf[2:]))
	case buf[1] == 127 && len(buf) >= 10:
		return 10, 10 + int(binary.BigEndian.Uint64(buf[2:]))
	}
	return 0, 0
}

// parseMessage reads a frame such as {"id":57,"event":{"type":"RUN_FINISHED",…}}.
func parseMessage(raw, text []byte) frame {
	id, rest := leadingID(text, `{"id":`)
	return frame{id: id, kind: leadingKind(rest, `"event":{"type":"`, '"'), raw: raw}
}
