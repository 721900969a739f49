package openapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/transports/wire"
)

// The document has exactly the commands that the server accepts.
func TestCommandsOfTheSocketAreInTheDocument(t *testing.T) {
	t.Parallel()
	var there []string
	for _, command := range fetch(t).at("components", "schemas", "SocketCommand", "oneOf").([]any) {
		there = append(there, command.(object)["properties"].(object)["op"].(object)["const"].(string))
	}
	if diff := cmp.Diff(wire.Ops(), there); diff != "" {
		t.Errorf("are read (-), are in the document (+):\n%s", diff)
	}
}

// sockets opens each WebSocket and checks the frames of both directions against the document.
func (c *client) sockets() {
	c.start(script(c.T, "mirrored", all))
	for _, protocol := range []string{"", "agui", "agui.1"} {
		c.socket("/api/v1/agent/runs/mirrored/ws", protocol).rest()
	}
	for _, protocol := range []string{"", "agui.1"} {
		s := c.socket("/api/v1/agui/scripted/ws", protocol)
		s.say(script(c.T, "mirrored", all))
		s.rest()
	}
	s := c.socket("/api/v1/ws", "baton.v1")
	for _, command := range []string{
		`{"op": "watch", "ref": 0}`,
		`{"op": "subscribe", "ref": 1, "threadId": "mirrored", "afterEventId": "latest"}`,
		`{"op": "run", "ref": "a", "agent": "echo", "threadId": "mirrored", "runId": "of-the-socket", "content": "hello"}`,
		`{"op": "append", "runId": "of-the-socket", "content": "more"}`,
		`{"op": "cancel", "ref": 3, "runId": "of-the-socket"}`,
		`{"op": "unsubscribe", "threadId": "mirrored"}`,
		`{"op": "unwatch"}`,
		`{"op": "subscribe", "ref": "last", "threadId": "nobody"}`,
	} {
		s.say(command)
	}
	for {
		if frame := s.next().(object); frame["op"] == "error" && frame["ref"] == "last" {
			break
		}
	}
	c.do(http.StatusUpgradeRequired, "GET", "/api/v1/ws", "")
}

// socket is a WebSocket with checked frames.
type socket struct {
	*client
	conn *websocket.Conn
	op   operation
}

func (c *client) socket(path, protocol string) *socket {
	c.Helper()
	d := websocket.Dialer{HandshakeTimeout: patience}
	if protocol != "" {
		d.Subprotocols = []string{protocol}
	}
	conn, resp, err := d.Dial("ws"+strings.TrimPrefix(c.url, "http")+path, nil)
	must(c, err)
	_ = resp.Body.Close()
	c.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	c.check("GET", path, answered{status: resp.StatusCode})
	if got := conn.Subprotocol(); got != protocol {
		c.Errorf("%s: speaks %q, want %q", path, got, protocol)
	}
	return &socket{c, conn, c.operation("GET", path)}
}

func (s *socket) say(text string) {
	s.Helper()
	schema := s.spec.schema(s.T, "paths", s.op.path, "get", "x-websocket", "send")
	validate(s.T, schema, decode(s.T, []byte(text)), s.op.path)
	must(s, s.conn.WriteMessage(websocket.TextMessage, []byte(text)))
}

// next returns the next frame.
func (s *socket) next() any {
	s.Helper()
	v, err := s.read()
	must(s, err)
	return v
}

// rest reads to the end of the socket, which must be a normal closure.
func (s *socket) rest() {
	s.Helper()
	for n := 0; ; n++ {
		_, err := s.read()
		if err == nil {
			continue
		}
		if !websocket.IsCloseError(err, websocket.CloseNormalClosure) || n == 0 {
			s.Errorf("%s: %v after %d frames", s.op.path, err, n)
		}
		return
	}
}

func (s *socket) read() (any, error) {
	s.Helper()
	_, text, err := s.conn.ReadMessage()
	if err != nil {
		return nil, err
	}
	v := decode(s.T, text)
	validate(s.T, s.spec.schema(s.T, "paths", s.op.path, "get", "x-websocket", "receive"), v, s.op.path)
	return v, nil
}
