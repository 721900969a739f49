package baton_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
)

// dial opens a WebSocket, or returns the status of the refusal.
func dial(t *testing.T, url string, header http.Header) (*websocket.Conn, int) {
	t.Helper()
	c, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http"), header)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	} else if res == nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return c, res.StatusCode
}

func TestDoors_CarrySockets(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		if door == "HTTP/2" { // has no upgrade
			return
		}
		s := open(t, baton.Adjust(
			baton.Config{Tuning: baton.Tuning{Timeouts: baton.Timeouts{OnDisconnectGrace: 50 * time.Millisecond, Ping: 100 * time.Millisecond}}},
			func(c *transports.StreamConfig) { c.WriteTimeout = time.Second },
		))
		url := doors[door](t, s)
		if _, status := dial(t, url+"/api/v1/ws", http.Header{"Origin": {"https://evil.example"}}); status != http.StatusForbidden {
			t.Errorf("a foreign page: %d", status)
		}

		c, _ := dial(t, url+"/api/v1/agui/scripted/ws", nil)
		converse(t, s, c)
	})
}

// converse starts a run over a socket, answers pings for longer than the write timeout, and disconnects: the run ends with
// the socket.
func converse(t *testing.T, s *baton.Server, c *websocket.Conn) {
	t.Helper()
	pinged := make(chan struct{}, 100)
	pong := c.PingHandler()
	c.SetPingHandler(func(data string) error {
		pinged <- struct{}{}
		return pong(data)
	})
	input := `{"threadId":"main","messages":[{"id":"1","role":"user","content":"{\"do\":[{\"say\":\"hello\"},{\"tool\":\"sleep\",\"args\":{\"ms\":3600000}}]}"}]}`
	must(t, c.WriteMessage(websocket.TextMessage, []byte(input)))
	read(t, c, "TEXT_MESSAGE_CONTENT")
	read(t, c, "TOOL_CALL_END")
	go func() { _, _, _ = c.ReadMessage() }() // answers pings; ends with the socket
	for range 15 {                            // longer than the write timeout
		<-pinged
	}
	await(t, s, runtime.Running)
	_ = c.Close()
	await(t, s, runtime.Cancelled)
}

// The server also notices a vanished client behind a proxy, whose kernel accepts data for a long time.
func TestSocket_WithoutPongsIsClosed(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		if door == "HTTP/2" {
			return
		}
		s := open(t, baton.Config{Tuning: baton.Tuning{Timeouts: baton.Timeouts{OnDisconnectGrace: 50 * time.Millisecond, Ping: 500 * time.Millisecond}}})
		c, _ := dial(t, doors[door](t, s)+"/api/v1/agui/scripted/ws", nil)
		input := `{"threadId":"main","messages":[{"id":"1","role":"user","content":"{\"do\":[{\"tool\":\"sleep\",\"args\":{\"ms\":3600000}}]}"}]}`
		must(t, c.WriteMessage(websocket.TextMessage, []byte(input)))
		read(t, c, "TOOL_CALL_END")
		c.SetPingHandler(func(string) error { return nil })
		go func() { _, _, _ = c.ReadMessage() }() // ends with the socket
		await(t, s, runtime.Cancelled)
	})
}

// TestSocket_GetsCloseCodeWhenServerStops closes Baton while a socket is open.
func TestSocket_GetsCloseCodeWhenServerStops(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		if door == "HTTP/2" {
			return
		}
		s := open(t, baton.Config{})
		c, _ := dial(t, doors[door](t, s)+"/api/v1/ws", nil)
		go func() { _ = s.Close() }() // the test's end waits for it
		_, _, err := c.ReadMessage()
		if !websocket.IsCloseError(err, websocket.CloseGoingAway) {
			t.Errorf("got %v, want the code 1001", err)
		}
	})
}

// read reads up to the event of a type.
func read(t *testing.T, c *websocket.Conn, kind string) {
	t.Helper()
	for {
		_, b, err := c.ReadMessage()
		if err != nil {
			t.Fatalf("before %s: %v", kind, err)
		}
		var ev struct{ Type string }
		if json.Unmarshal(b, &ev) == nil && ev.Type == kind {
			return
		}
	}
}
