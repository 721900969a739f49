package e2e

import (
	"bufio"
	framing "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// door is a way to watch runs live.
type door struct {
	name    string
	owner   bool // starts the run that it shows
	monitor bool // shows current events of all runs
	socket  bool
	ask     func(v visit) request
}

// visit describes a client's request.
type visit struct {
	thread string
	script string // of the run, if the door starts one
	after  string // the client's last id, empty for none
}

// request is the HTTP request for a stream.
type request struct {
	path string
	body string // of a POST; empty for a GET
	last string // Last-Event-ID
	say  string // the first message on a socket
}

var doors = []*door{
	{name: "events", ask: func(v visit) request {
		return request{path: events(v.thread) + "?follow=true", last: v.after}
	}},
	{name: "connect", ask: func(v visit) request {
		return request{path: "/api/v1/agui/scripted/connect", body: encode(map[string]any{"threadId": v.thread})}
	}},
	{name: "answer", owner: true, ask: func(v visit) request {
		return request{path: "/api/v1/agent/runs", body: encode(map[string]any{"agent": "scripted", "threadId": v.thread, "content": v.script})}
	}},
	{name: "agui", owner: true, ask: func(v visit) request {
		return request{path: "/api/v1/agui/scripted", body: encode(map[string]any{"threadId": v.thread, "content": v.script})}
	}},
	{name: "project", monitor: true, ask: func(v visit) request {
		return request{path: "/api/v1/events", last: v.after}
	}},
	{name: "agent", monitor: true, ask: func(v visit) request {
		return request{path: "/api/v1/agents/stream?agent=scripted", last: v.after}
	}},
	{name: "states", monitor: true, ask: func(v visit) request {
		return request{path: "/api/v1/agui/events", last: v.after}
	}},
	{name: "mirror", socket: true, ask: func(v visit) request {
		return request{path: "/api/v1/agent/runs/" + v.thread + "/ws?follow=true&after_event_id=" + v.after}
	}},
	{name: "many", socket: true, ask: func(v visit) request {
		after, _ := strconv.Atoi(v.after)
		return request{path: "/api/v1/ws", say: encode(map[string]any{"op": "subscribe", "threadId": v.thread, "afterEventId": after})}
	}},
	{name: "run", owner: true, socket: true, ask: func(v visit) request {
		return request{path: "/api/v1/agui/scripted/ws", say: encode(map[string]any{"threadId": v.thread, "content": v.script})}
	}},
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// bytes returns the bytes that a client sends, including the first message on a socket.
func (d *door) bytes(v visit) []byte {
	r := d.ask(v)
	method, header := http.MethodGet, "Accept: text/event-stream\r\n"
	if r.body != "" {
		method = http.MethodPost
		header += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(r.body))
	}
	if d.socket {
		header = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	}
	if r.last != "" {
		header += "Last-Event-ID: " + r.last + "\r\n"
	}
	all := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s", method, r.path, header, r.body)
	if r.say != "" {
		all = appendMasked(all, opText, []byte(r.say))
	}
	return all
}

// stream is a client's end of an open stream. It is for use by one goroutine.
type stream struct {
	*door
	visit
	conn *tap
	in   *bufio.Reader
	body io.Closer // nil for a socket
	last string    // the id of the last complete event, or the stream's start
	ids  []int64   // of the events that have one

	retry string // the latest reconnect delay, in milliseconds
}

// open opens a stream and returns when the server has answered.
func (d *door) open(addr string, v visit) (*stream, error) {
	c, err := dialTap(addr)
	if err != nil {
		return nil, err
	}
	st := &stream{door: d, visit: v, conn: c, in: bufio.NewReaderSize(c, 4<<10), last: v.after}
	if _, err := c.Write(d.bytes(v)); err != nil {
		st.close()
		return nil, err
	}
	res, err := http.ReadResponse(st.in, nil)
	if err != nil {
		st.close()
		return nil, err
	}
	want := http.StatusOK
	if d.socket {
		want = http.StatusSwitchingProtocols
	}
	if res.StatusCode != want {
		_ = res.Body.Close()
		st.close()
		return nil, fmt.Errorf("%s: %s", d.name, res.Status)
	}
	if !d.socket {
		st.body, st.in = res.Body, bufio.NewReaderSize(res.Body, 4<<10)
	}
	return st, nil
}

func (st *stream) close() {
	_ = st.conn.Close()
	if st.body != nil {
		_ = st.body.Close()
	}
}

// port returns the local port, which identifies the stream on this machine.
func (st *stream) port() int { return st.conn.LocalAddr().(*net.TCPAddr).Port }

// message is an event of a stream.
type message struct {
	id   string
	typ  string
	data string
}

// next returns the next message. It fails with io.EOF when the server has ended the stream properly, with a closed error when the
// server has closed the socket, and with another error when the stream was cut.
func (st *stream) next() (message, error) {
	m, err := st.block()
	if st.socket {
		m, err = st.text()
	}
	if err == nil && m.id != "" {
		st.last = m.id
		if id, err := strconv.ParseInt(m.id, 10, 64); err == nil && m.data != "" {
			st.ids = append(st.ids, id)
		}
	}
	return m, err
}

// block reads a block of server-sent events that is not empty.
func (st *stream) block() (m message, err error) {
	if st.socket {
		return m, nil
	}
	for begun := false; ; {
		line, err := st.in.ReadString('\n')
		if errors.Is(err, io.EOF) && (begun || line != "") {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return m, err
		}
		if strings.HasPrefix(line, ":") {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		begun = name != "" && name != "retry"
		switch name {
		case "id":
			m.id = value
		case "event":
			m.typ = value
		case "data":
			m.data = value
		case "retry":
			st.retry = value
		case "":
			if m != (message{}) && m.typ != "keepalive" {
				return m, nil
			}
			m = message{}
		}
	}
}

// closed is the close code of a socket.
type closed int

func (c closed) Error() string { return fmt.Sprintf("closed with %d", int(c)) }

// WebSocket opcodes.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

// text reads a message of a socket, and answers pings before it.
func (st *stream) text() (message, error) {
	for {
		op, payload, err := st.frame()
		if err != nil {
			return message{}, err
		}
		switch op {
		case opClose:
			if len(payload) < 2 {
				return message{}, closed(0)
			}
			return message{}, closed(framing.BigEndian.Uint16(payload))
		case opPing:
			_, _ = st.conn.Write(appendMasked(nil, opPong, payload))
		case opText:
			var f struct {
				ID    int64
				Type  string
				Event struct{ Type string }
			}
			if err := json.Unmarshal(payload, &f); err != nil {
				return message{}, err
			}
			m := message{typ: f.Type + f.Event.Type, data: string(payload)}
			if f.ID != 0 {
				m.id = strconv.FormatInt(f.ID, 10)
			}
			return m, nil
		default:
			return message{}, fmt.Errorf("a frame with opcode %d", op)
		}
	}
}

// frame reads a frame. The server neither splits nor masks frames.
func (st *stream) frame() (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(st.in, head[:]); err != nil {
		return 0, nil, noEnd(err)
	}
	size := uint64(head[1])
	if size > 125 {
		var more [8]byte
		width := map[uint64]int{126: 2, 127: 8}[size]
		if _, err := io.ReadFull(st.in, more[8-width:]); err != nil {
			return 0, nil, noEnd(err)
		}
		size = framing.BigEndian.Uint64(more[:])
	}
	if head[0]&0xf0 != 0x80 || size > 16<<20 {
		return 0, nil, fmt.Errorf("a frame that begins with %x", head)
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(st.in, payload)
	return head[0] & 0x0f, payload, noEnd(err)
}

// noEnd converts io.EOF, as a socket must not end without a close frame.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendMasked appends a client's frame.
func appendMasked(dst []byte, op byte, payload []byte) []byte {
	dst = append(dst, 0x80|op)
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, 0x80|byte(n))
	default:
		dst = framing.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(n))
	}
	return append(append(dst, 0, 0, 0, 0), payload...) // a mask of zeros changes nothing
}

// tap is a connection with a small receive buffer that can read slowly.
type tap struct {
	*net.TCPConn
	hurry <-chan struct{}  // reads slowly until it is closed; nil reads at full speed
	drip  <-chan time.Time // when to read a byte
}

func dialTap(addr string) (*tap, error) {
	d := net.Dialer{Timeout: time.Minute, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10) })
	}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &tap{TCPConn: c.(*net.TCPConn)}, nil
}

// Read reads a byte at a time until hurry is closed.
func (c *tap) Read(p []byte) (int, error) {
	if c.hurry != nil && len(p) > 0 {
		select {
		case <-c.hurry:
		case <-c.drip:
			p = p[:1]
		}
	}
	return c.TCPConn.Read(p)
}
