package ws

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/fanout"
)

// ping is a ping frame.
var ping = []byte{0x89, 0}

// control corrects a control frame of the library, and reports whether it closes the socket, after which nothing may be sent. The
// library uses other close codes than the RFC for a reason that is not UTF-8 and for a bad gateway.
func control(frame []byte) ([]byte, bool) {
	if frame[0] != 0x88 {
		return frame, false
	}
	switch string(frame[2:]) {
	case "\x03\xeainvalid utf8 payload in close frame":
		return closing(websocket.CloseInvalidFramePayloadData, "A reason must be UTF-8"), true
	case "\x03\xeabad close code 1014":
		return closing(badGateway, ""), true
	}
	return frame, true
}

// badGateway is the code of a close behind a gateway that could not reach its server.
const badGateway = 1014

// closing returns a frame that closes a socket.
func closing(code int, reason string) []byte {
	payload := websocket.FormatCloseMessage(code, reason)
	return append([]byte{0x88, byte(len(payload))}, payload...)
}

// latest holds the end of the client's input, long enough for a close frame with half a code.
type latest [7]byte

func (l *latest) add(p []byte) {
	if n := len(l) - len(p); n > 0 {
		copy(l[:n], l[len(p):])
		copy(l[n:], p)
	} else {
		copy(l[:], p[-n:])
	}
}

// isHalfClose reports whether that is a close frame with one byte, which the client has masked.
func (l *latest) isHalfClose() bool { return l[0] == 0x88 && l[1] == 0x81 }

// header appends the header of a text frame of n bytes. A server masks nothing.
func header(dst []byte, n int) []byte {
	switch {
	case n < 126:
		return append(dst, 0x81, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 0x81, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0x81, 127), uint64(n))
}

// encoded returns a frame with v as JSON, which must be possible.
func encoded(v any) []byte {
	var b bytes.Buffer
	var room [10]byte // for a header
	b.Write(room[:])
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	b.Truncate(b.Len() - 1) // of the line's end
	frame := b.Bytes()
	head := header(nil, len(frame)-len(room))
	frame = frame[len(room)-len(head):]
	copy(frame, head)
	return frame
}

// framing is how a socket's events are written: in an object that begins with these members, or bare.
type framing string

const (
	bare     framing = ""
	numbered framing = "{" // beside its id
)

var _ fanout.Framing = bare

// named returns the framing of a thread's events on a socket with many.
func named(threadID string) framing {
	return framing(`{"op":"event","threadId":` + string(encode(threadID)) + `,`)
}

// Around appends the start of an event's frame.
func (f framing) Around(dst []byte, id int64, _ agui.Type, n int) (head []byte, tail string) {
	if f == bare {
		return header(dst, n), ""
	}
	const end = "}"
	var buf [64]byte
	label := buf[:0]
	if id != 0 {
		label = append(strconv.AppendInt(append(label, `"id":`...), id, 10), ',')
	}
	label = append(label, `"event":`...)
	dst = header(dst, len(f)+len(label)+n+len(end))
	return append(append(dst, f...), label...), end
}
