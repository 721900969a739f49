package ws_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/transports"
)

// A message that has begun is kept, so it must not be long in coming. A client that says nothing may be silent for ever.
func TestMessageMustGetOn(t *testing.T) {
	t.Parallel()
	const slack = 300 * time.Millisecond
	s := serveWith(t, transports.StreamConfig{}, slack, 0)
	for _, path := range []string{"/api/v1/ws", "/api/v1/agui/echo/ws"} {
		silent := s.open(path)
		slow := s.open(path)
		part, err := slow.NextWriter(websocket.TextMessage)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprint(part, `{"op":`, strings.Repeat(" ", 8<<10)) // more than the client keeps
		_, _, err = slow.ReadMessage()
		slow.closed(err, 4408)
		silent.send(`{"op": "unknown"}`)
		if path == "/api/v1/ws" {
			silent.until(`"unknown_op"`)
		}
	}
	s.Eventually("nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
}

func TestMessagesShareABudget(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{InFlight: 1 << 20})
	half := strings.Repeat(" ", 600<<10)
	for _, path := range []string{"/api/v1/ws", "/api/v1/agui/echo/ws"} {
		first, second := s.open(path), s.open(path)
		part, err := first.NextWriter(websocket.TextMessage)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprint(part, half[:200<<10])
		s.Eventually("the first is held", func() bool { return s.Streams.Budget.Used() >= 128<<10 })
		second.send(half)
		_, _, err = second.ReadMessage()
		second.closed(err, 4503)
		_ = first.Close()
		s.Eventually("nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
	}
}

// A client must send a message at a minimum rate on average, or the socket is closed.
func TestLargeEventIsTakenInTime(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	s := serveWith(t, transports.StreamConfig{WriteTimeout: 2 * time.Second, SendBuffer: 4 << 10}, time.Second, 4<<20)
	s.Script("main", fmt.Sprintf(`{"tokens": 1, "size": %d}`, size))
	s.watch("main", "").all(1000)
	c, _ := s.dial("/api/v1/agent/runs/main/ws", func(c *net.TCPConn) { _ = c.SetReadBuffer(4 << 10) })
	got, buf := 0, make([]byte, 4<<10)
	var err error
	for n := 0; err == nil; n, err = c.NetConn().Read(buf) { // some 200 KiB a second at most
		got += n
		<-time.After(20 * time.Millisecond)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || got > size {
		t.Errorf("a client that takes too little has got %d bytes, and then %v", got, err)
	}
	s.Eventually("nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
}
